"""Stores trickles of running results; sends letters and the mail of the outbox."""
