"""Machines that try to break it: random walks, interleavings, kills, failures."""
