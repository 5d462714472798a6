"""Rules about hosts [pure]."""
