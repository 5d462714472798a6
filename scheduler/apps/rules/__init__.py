"""Judgements of apps and packages: facts in, a verdict out [pure]."""
