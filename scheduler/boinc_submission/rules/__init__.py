"""Pure functions that make workunits from submissions in BOINC's format."""
