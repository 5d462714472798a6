"""Calculation of credit, from facts alone [pure]."""
