"""Decisions about workunits and batches [pure].

The functions use only their arguments: no database, files or clock.
"""
