"""Submission of workunits: checks, staged inputs, batches, rows."""
