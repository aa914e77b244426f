"""The demo's cities: where they are, what a square metre costs there, what their postcodes look like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headwater.demo.draw import Draw, Weighted

LETTERS: Final = "ABDEFGHJLNPQRSTUWXYZ"


@dataclass(frozen=True, slots=True)
class City:
    name: str
    country: str
    lat: float
    lon: float
    euro_per_m2: int
    share: float
    """Of all listings, relative to the other cities."""
    districts: tuple[str, ...]
    postcodes: tuple[str, ...]
    """`#` stands for a digit and `@` for a letter."""

    def postcode(self, draw: Draw) -> str:
        pattern = draw.one(self.postcodes)
        if "#" not in pattern and "@" not in pattern:
            return pattern
        return "".join(str(draw.below(10)) if c == "#" else draw.one(LETTERS) if c == "@" else c for c in pattern)


def _numbered(prefix: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number:02d}" for number in range(first, last + 1))


# fmt: off
CITIES: Final = (
    City(
        "Paris", "France", 48.8566, 2.3522, 10200, 18,
        ("Le Marais", "Belleville", "Montmartre", "Batignolles", "Canal Saint-Martin"), _numbered("750", 1, 20),
    ),
    City(
        "London", "United Kingdom", 51.5074, -0.1278, 9400, 18,
        ("Hackney", "Clapham", "Islington", "Peckham", "Walthamstow"),
        ("E8 #@@", "SW4 #@@", "N1 #@@", "SE15 #@@", "E17 #@@"),
    ),
    City(
        "Berlin", "Germany", 52.5200, 13.4050, 5600, 12,
        ("Kreuzberg", "Neukölln", "Prenzlauer Berg", "Friedrichshain", "Wedding"),
        ("10961", "12043", "10405", "10245", "13347"),
    ),
    City(
        "Madrid", "Spain", 40.4168, -3.7038, 4900, 9,
        ("Malasaña", "Lavapiés", "Chamberí", "Retiro", "Salamanca"), _numbered("280", 1, 30),
    ),
    City(
        "Barcelona", "Spain", 41.3874, 2.1686, 5000, 8,
        ("Gràcia", "Eixample", "Poblenou", "Sants", "El Born"), _numbered("080", 1, 30),
    ),
    City(
        "Lyon", "France", 45.7640, 4.8357, 4800, 8,
        ("Croix-Rousse", "Vieux Lyon", "Confluence", "Part-Dieu", "Monplaisir"), _numbered("690", 1, 9),
    ),
    City(
        "Amsterdam", "Netherlands", 52.3676, 4.9041, 7900, 7,
        ("Jordaan", "De Pijp", "Oud-West", "Noord", "Watergraafsmeer"), ("1015 @@", "1073 @@", "1053 @@", "1031 @@"),
    ),
    City(
        "Lisbon", "Portugal", 38.7223, -9.1393, 5300, 6,
        ("Alfama", "Graça", "Estrela", "Campo de Ourique", "Alvalade"),
        ("1100-###", "1170-###", "1200-###", "1350-###"),
    ),
    City(
        "Dublin", "Ireland", 53.3498, -6.2603, 6100, 5,
        ("Ranelagh", "Stoneybatter", "Phibsborough", "Rathmines", "Howth"),
        ("D06 @###", "D07 @###", "D08 @###", "D13 @###"),
    ),
    City(
        "Marseille", "France", 43.2965, 5.3698, 3600, 5,
        ("Le Panier", "Endoume", "Noailles", "Mazargues", "L'Estaque"), _numbered("130", 1, 16),
    ),
    City(
        "Edinburgh", "United Kingdom", 55.9533, -3.1883, 4700, 4,
        ("Leith", "Stockbridge", "Marchmont", "Morningside", "Portobello"),
        ("EH6 #@@", "EH4 #@@", "EH9 #@@", "EH15 #@@"),
    ),
    City(
        "Bordeaux", "France", 44.8378, -0.5792, 4600, 4,
        ("Chartrons", "Saint-Michel", "Caudéran", "La Bastide", "Nansouty"),
        ("33000", "33100", "33200", "33300", "33800"),
    ),
)
# fmt: on

BY_SHARE: Final = Weighted(CITIES, [city.share for city in CITIES])
