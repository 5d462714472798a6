"""Sorts and searches lists of the admin by indexes, and tables of pages in memory."""
