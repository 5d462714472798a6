"""Calculates credit from facts [pure]."""
