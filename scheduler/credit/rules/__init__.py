"""Computes credit and recent averages, as pure functions."""
