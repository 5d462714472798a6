"""Reads the texts of trickles, and checks messages of the outbox [pure]."""
