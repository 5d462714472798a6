"""Where Django looks for the commands of the wiring."""
