"""Commands that drive the daemons by hand and in the foreground."""
