"""Cancels, retries, collects and explains workunits and batches."""
