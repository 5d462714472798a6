"""Finds and runs plug-ins: validators, assimilators, generators and handlers."""
