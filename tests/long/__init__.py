"""Machines that try to break the promises: random walks, interleavings, kills, failures."""
