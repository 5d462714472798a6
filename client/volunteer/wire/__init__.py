"""The client's encoder and decoder of BOINC's protocol [pure]."""
