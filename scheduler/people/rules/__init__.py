"""Limits on log-ins, computed from facts alone [pure]."""
