"""Judgements of results: facts in, a verdict out [pure]."""
