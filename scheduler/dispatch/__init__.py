"""Dispatch of results to hosts: search, claim and the catalog of apps."""
