"""Rules of the log-in throttle [pure]."""
