"""One command per module, named as it is typed."""
