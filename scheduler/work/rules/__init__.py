"""Decisions about workunits and batches: facts in, a decision out [pure]."""
