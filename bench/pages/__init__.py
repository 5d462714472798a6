"""Measures the server time and the SQL statements of every page, with many rows."""
