"""Downloadable files: rows, holds, sticky files, deletion, fetching."""
