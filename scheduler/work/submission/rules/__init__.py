"""Checks and priorities of new workunits: facts in, decisions out [pure]."""
