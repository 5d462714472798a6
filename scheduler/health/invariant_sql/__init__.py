"""SQL statements that return violations of the invariants.

The first line of a statement is a comment with the invariant as a sentence.
"""
