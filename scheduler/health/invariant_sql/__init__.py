"""One statement per invariant, which returns the rows that violate its first line."""
