"""Views declared in SQL, kept up to date from the change log."""
