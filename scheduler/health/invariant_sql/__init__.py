"""One statement per invariant: the first line is the condition, rows violate it."""
