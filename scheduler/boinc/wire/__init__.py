"""Parses and encodes the XML messages of BOINC's clients, as pure functions."""
