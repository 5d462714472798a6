"""HTTP of the API: bodies, pages, ETags, idempotency keys and problems."""
