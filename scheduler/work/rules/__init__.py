"""Decisions about workunits and batches, from facts alone [pure]."""
