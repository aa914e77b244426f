"""Ways in which a notification reaches somebody. A channel is one file here and one line in headwater/channels.py."""
