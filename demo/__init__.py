"""The demonstration: a small project with real science in it, from nothing to its answer."""
