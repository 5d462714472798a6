"""The daemons that process workunits, one module per daemon, and their loop."""
