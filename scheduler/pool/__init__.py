"""Lets a laboratory's own hosts claim work and wait for cancellations."""
