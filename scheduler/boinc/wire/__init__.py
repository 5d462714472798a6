"""BOINC's XML, read into messages and written from them [pure]."""
