"""Endpoints that act on many workunits, hosts or queues at once."""
