"""Rules of queues: which hosts they serve, and when their limits change [pure]."""
