"""Judgements of log-ins: facts in, a verdict out [pure]."""
