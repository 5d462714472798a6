"""Contains the settings, URLs and servers of a project."""
