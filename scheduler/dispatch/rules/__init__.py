"""Rules of dispatch: facts in, a decision out [pure]."""
