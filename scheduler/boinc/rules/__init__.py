"""Pure functions that normalize the paths of requests."""
