"""Decisions about files, from facts alone [pure]."""
