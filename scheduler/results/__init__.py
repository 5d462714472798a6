"""Handles reports of results, replication, revalidation requests and outages."""
