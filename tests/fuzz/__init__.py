"""Fuzzing: mutated requests of every kind, in process and over HTTP (`make test-fuzz`)."""
