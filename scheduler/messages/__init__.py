"""Stores trickles to and from running results, and sends the mail of the outbox."""
