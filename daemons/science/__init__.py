"""Plug-ins of science: how outputs are compared and what becomes of the answer."""
