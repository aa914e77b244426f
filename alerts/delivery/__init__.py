"""From the outbox to the channels: claims what is due, tries it, decides what becomes of it. Nobody waits
behind an endpoint that is dead."""
