"""Contains the daemons that process workunits, one module per daemon."""
