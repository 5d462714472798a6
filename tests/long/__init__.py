"""Long tests: random walks, interleavings, killed processes, outages."""
