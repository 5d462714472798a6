"""Reads the texts of trickles [pure]."""
