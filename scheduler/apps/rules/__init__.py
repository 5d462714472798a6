"""Decisions about apps and packages, from facts alone [pure]."""
