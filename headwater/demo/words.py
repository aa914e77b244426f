"""The demo's vocabulary: names, and the sentences that descriptions are put together from.

Sentences are written the way agents write, with the words that people search for ("south facing garden", "heat pump").
"""

from __future__ import annotations

from typing import Final

FIRST_NAMES: Final = (
    "Amélie", "Anouk", "Aoife", "Beatriz", "Camille", "Carlos", "Chiara", "Conor", "Daan", "Elif", "Emma", "Fatima",
    "Finn", "Greta", "Hannah", "Hugo", "Inês", "Isla", "Jan", "João", "Julien", "Karim", "Lars", "Léa", "Lotte",
    "Lucía", "Mateo", "Miriam", "Nadia", "Noah", "Olivia", "Pablo", "Priya", "Rosa", "Samuel", "Sofia", "Théo",
    "Tomás", "Yusuf", "Zoë",
)  # fmt: skip

LAST_NAMES: Final = (
    "Almeida", "Bakker", "Becker", "Bernard", "Campbell", "Costa", "Dubois", "Fernández", "Fischer", "Fontaine",
    "Garcia", "Girard", "Haddad", "Hughes", "Iglesias", "Jansen", "Kaya", "Kelly", "Lefèvre", "MacLeod", "Martin",
    "Mercier", "Moreau", "Müller", "Murphy", "Navarro", "O'Brien", "Okafor", "Patel", "Pereira", "Ramos", "Rossi",
    "Roux", "Santos", "Schneider", "Serra", "Smith", "Torres", "Visser", "Walsh",
)  # fmt: skip

AGENCIES: Final = (
    "Rive Gauche Immobilier", "Harbour & Lane", "Haus und Hof", "Casa Clara", "Pont Neuf Habitat", "North Quay Homes",
    "Grachten Makelaars", "Tejo Imobiliária", "Stone & Slate", "Les Trois Clés", "Green Door Estates",
    "Altbau Kontor",
)  # fmt: skip

LANGUAGES: Final = ("de", "en", "es", "fr", "nl", "pt", "tr", "ar")

OPENERS: Final = {
    "house": (
        "A family house over three floors in the heart of {district}.",
        "This end of terrace house in {district} has kept its original tiles and fireplaces.",
        "A detached house on a quiet street in {district}, extended in {year}.",
        "Rarely on the market in {district}: a Victorian house with a loft ready to convert.",
    ),
    "flat": (
        "A bright flat on the {floor} floor of a well kept building in {district}.",
        "A corner flat in {district} with large windows on two sides.",
        "This flat in {district} was renovated from floor to ceiling in {year}.",
        "On the {floor} floor with a lift, a crossing flat in sought after {district}.",
    ),
    "studio": (
        "A compact studio in {district}, ideal as a first purchase or to let.",
        "A sunny studio on the {floor} floor in {district} with a separate kitchen.",
        "A studio with a mezzanine bed in the liveliest part of {district}.",
    ),
    "loft": (
        "A former print works in {district} turned into a loft with steel windows.",
        "An open loft with ceilings of four metres and exposed brick in {district}.",
        "This loft in {district} was a carpenter's workshop until {year}.",
    ),
    "cottage": (
        "A cottage with low beams and a slate roof at the edge of {district}.",
        "A stone cottage in {district}, hidden behind a row of lime trees.",
        "A whitewashed cottage in {district} with a wood burning stove.",
    ),
    "land": (
        "A building plot in {district} with outline permission for one house.",
        "A level plot in {district}, with water and electricity at the boundary.",
        "An orchard with planning consent on the edge of {district}.",
    ),
}  # fmt: skip

GARDENS: Final = (
    "The south facing garden has an old apple tree and a shed.",
    "A walled garden with roses gets the sun all afternoon.",
    "Glass doors open from the kitchen on to a west facing garden.",
    "The garden is small, private and planted with herbs.",
    "A long garden runs down to a stream.",
)

INSIDE: Final = (
    "The kitchen is fitted, with room for a table of six.",
    "Oak parquet and high ceilings throughout.",
    "The living room has a working fireplace.",
    "The bathroom is new, with a walk in shower.",
    "Double glazing and a heat pump keep the bills low.",
    "There is plenty of built in storage.",
    "The main bedroom looks on to the courtyard and is very quiet.",
    "A second room makes a good home office.",
    "Some work is needed: sold as seen.",
    "Exposed beams and terracotta tiles give it warmth.",
)

AROUND: Final = (
    "Five minutes on foot to the metro.",
    "Schools, a bakery and the Saturday market are round the corner.",
    "Close to the park and to the tram.",
    "The station is near, and trains cannot be heard.",
    "Cafés, a cinema and a swimming pool are within a short walk.",
    "A quiet street without through traffic, with a secure place for bicycles.",
    "The river path begins at the end of the road.",
    "Views over the rooftops to the cathedral.",
)

CLOSERS: Final = (
    "No chain.",
    "Viewings on Saturdays by appointment.",
    "The sellers are ready to move in spring.",
    "Low service charge, no works voted.",
    "Available at once.",
    "A lock up garage can be bought with it.",
)

FINDINGS: Final = (
    "roof covering of natural slate, some slips on the north slope",
    "chimney stack repointed, flashing sound",
    "floor joists dry, moisture below twelve per cent",
    "hairline cracks above the lintel, not progressive",
    "consumer unit replaced, earth bonding in place",
    "waste pipes of cast iron, one joint weeping",
    "cavity walls insulated, no bridging seen",
    "window frames of softwood, paint failing on the weather side",
    "boiler serviced, flue clear, pressure steady",
    "no evidence of wood boring insects in the roof space",
    "cellar damp at the foot of the party wall, ventilation advised",
    "gutters clear, downpipe loose at the second bracket",
)

FEATURES: Final = (
    "balcony", "bicycle room", "cellar", "concierge", "fireplace", "garage", "heat pump", "home office", "lift",
    "parquet", "parking", "pool", "roof terrace", "solar panels", "terrace", "walk in wardrobe",
)  # fmt: skip

CAPTIONS: Final = ("Front", "Living room", "Kitchen", "Bedroom", "Bathroom", "View", "Floor plan", None)

FLOORS: Final = ("ground", "first", "second", "third", "fourth", "fifth", "top")

GOODS: Final = {
    "kitchen": (("Enamel kettle", 39), ("Chef's knife", 64), ("Stoneware bowl", 18), ("Cast iron pan", 72)),
    "garden": (("Watering can", 34), ("Pruning shears", 41), ("Terracotta pot", 22), ("Folding chair", 59)),
    "light": (("Desk lamp", 84), ("Paper lantern", 27), ("Wall light", 96), ("Candle holder", 16)),
    "textile": (("Linen sheet", 89), ("Wool blanket", 119), ("Bath towel", 24), ("Jute rug", 149)),
    "storage": (("Oak shelf", 135), ("Wire basket", 29), ("Shoe rack", 54), ("Coat hook", 12)),
}

COLOURS: Final = ("sand", "forest green", "ink blue", "brick red", "charcoal", "chalk white", "ochre", "plum")

REFERRERS: Final = (
    None,
    None,
    None,
    "https://search.example/",
    "https://news.example/homes",
    "https://social.example/share",
)
