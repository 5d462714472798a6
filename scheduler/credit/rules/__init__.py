"""Calculation of credit: facts in, an amount out [pure]."""
