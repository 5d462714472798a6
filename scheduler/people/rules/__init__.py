"""Computes the limits of the log-in throttle, as pure functions."""
