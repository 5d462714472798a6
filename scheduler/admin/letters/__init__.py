"""The pages on which staff write letters, send them, and see their progress."""
