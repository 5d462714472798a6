"""The demonstration: a small project with real science, from start to answer."""
