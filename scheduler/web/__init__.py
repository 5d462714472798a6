"""The face for people: pages that need no log-in and no script to be read."""
