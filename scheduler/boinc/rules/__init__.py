"""Rules of the paths of requests [pure]."""
