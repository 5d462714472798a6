"""Decisions about files [pure].

The functions use only their arguments: no database, files or clock.
"""
