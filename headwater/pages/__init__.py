"""Pages for people: the console for who runs Headwater, the site for who uses it. Server-rendered, no build step."""
