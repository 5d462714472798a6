"""Trickle messages between running results and the server."""
