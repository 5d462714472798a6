"""The interface for people: pages that need neither a log-in nor scripts."""
