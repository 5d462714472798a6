"""The daemons that process work: one module each, one loop, two drivers."""
