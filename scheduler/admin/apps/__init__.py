"""Admin pages of apps, their versions, plan classes and platforms."""
