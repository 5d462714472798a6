"""Rules for alerts, and for the causes why work makes no progress [pure]."""
