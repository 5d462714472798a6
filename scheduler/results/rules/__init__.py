"""Decisions about results [pure].

The functions use only their arguments: no database, files or clock.
"""
