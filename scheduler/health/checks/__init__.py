"""Stores runs of checks, and carries out those that staff request in small steps."""
