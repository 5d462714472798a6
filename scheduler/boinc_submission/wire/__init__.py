"""Parses and encodes the XML of submitters and templates, as pure functions."""
