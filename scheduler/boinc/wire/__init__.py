"""Parses and encodes the XML messages of BOINC's clients [pure]."""
