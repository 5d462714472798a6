"""Judgements of files: facts in, a verdict out [pure]."""
