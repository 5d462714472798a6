"""Judgements of new workunits: facts in, a verdict out [pure]."""
