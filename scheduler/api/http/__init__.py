"""The HTTP layer of the API: bodies, pages, ETags, idempotency keys and problems."""
