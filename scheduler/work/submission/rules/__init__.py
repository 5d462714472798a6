"""Checks new workunits and computes their priorities [pure].

The functions use only their arguments: no database, files or clock.
"""
