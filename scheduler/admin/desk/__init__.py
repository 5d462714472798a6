"""The first page of the admin: the operator's desk, and the navigation by noun."""
