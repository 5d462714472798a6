"""Alerts and causes of delays: facts in, sentences out [pure]."""
