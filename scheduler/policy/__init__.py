"""Judgements: facts in, a verdict out [pure]."""
