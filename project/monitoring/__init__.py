"""Answers probes and monitoring systems, and counts HTTP requests."""
