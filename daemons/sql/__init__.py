"""Contains SQL statements of the daemons, one statement per file."""
