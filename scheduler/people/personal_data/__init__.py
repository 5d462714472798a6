"""Personal data of an account: profile, consents, export and erasure."""
