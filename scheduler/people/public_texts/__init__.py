"""Decides which accounts may publish texts of their own.

`confirmed_addresses.require` refuses accounts whose e-mail address is not confirmed.
"""
