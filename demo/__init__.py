"""The demonstration: a small project with real science, from work to answers."""
