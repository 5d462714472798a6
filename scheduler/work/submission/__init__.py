"""Submits workunits: checks them, stores their inputs and writes their rows."""
