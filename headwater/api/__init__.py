"""Reading views over HTTP: by key, by search, as a feed of changes; each answer says how fresh it is."""
