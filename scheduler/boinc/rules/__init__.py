"""Rules for the paths of requests [pure]."""
