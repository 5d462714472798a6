"""Decisions about results, from facts alone [pure]."""
