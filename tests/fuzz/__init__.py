"""Fuzzing: mutated requests of every kind, in process and over HTTP."""
