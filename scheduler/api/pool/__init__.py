"""The API of the trusted pool, for the clients of enrolled hosts."""
