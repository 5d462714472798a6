"""Credit: the amount for a valid result, and the sums of granted credit."""
