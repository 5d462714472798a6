"""The domain: what is known, decided and said."""
