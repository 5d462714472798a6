"""Judgements of BOINC's submissions: facts in, a verdict out [pure]."""
