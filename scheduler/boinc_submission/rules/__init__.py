"""Rules for submissions in BOINC's format [pure]."""
