"""The pages on which volunteers see their computers and the results of these."""
