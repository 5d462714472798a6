"""Judgements of the project's state: facts in, a verdict out [pure]."""
