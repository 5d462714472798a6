"""Stores trickles from running results, and queues trickles to running results."""
