"""Credit: what a valid result is worth, and the sums of what was granted."""
