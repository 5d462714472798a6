"""Rules that determine the alerts and the causes of stalled work [pure]."""
