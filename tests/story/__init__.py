"""Stories: a real server, its daemons and real clients, followed to the end."""
