"""Pages of BOINC's web site that other programs read."""
