"""Plug-ins (validators, assimilators, generators, handlers) and their workers."""
