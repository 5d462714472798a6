"""Judgements of workunits and batches: facts in, a verdict out [pure]."""
