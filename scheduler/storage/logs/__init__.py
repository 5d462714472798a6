"""Reads the ends of log files."""
