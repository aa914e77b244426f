"""Saved searches: matched against every change, told once."""
