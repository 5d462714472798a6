"""Checks and priorities of new workunits, from facts alone [pure]."""
