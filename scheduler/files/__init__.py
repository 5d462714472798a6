"""Manages downloadable files, holds and sticky files, and fetches from URLs."""
