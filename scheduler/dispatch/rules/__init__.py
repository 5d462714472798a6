"""Judgements of dispatch: facts in, a verdict out [pure]."""
