"""BOINC's wire, seen from the client: its own encoder and decoder [pure]."""
