"""SQL statements that only the daemons use, one per file."""
