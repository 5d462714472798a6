"""Encodes and decodes the messages of BOINC's protocol, as pure functions."""
