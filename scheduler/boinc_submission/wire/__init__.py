"""Parses and encodes the XML of BOINC's submitters and templates [pure]."""
