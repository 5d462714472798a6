"""The XML of BOINC's submitters and templates [pure]."""
