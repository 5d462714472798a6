"""Rules about results: facts in, a verdict out [pure]."""
