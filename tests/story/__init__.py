"""End-to-end tests with a real server, its daemons and real clients."""
