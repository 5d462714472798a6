"""Workunits and batches: cancel, retry, collect, progress, explanation."""
