"""Mutation tests (`make mutate`): switch each rule off; a test must fail.

`switches.py` is the table: a rule in words, how to switch it off, and its tests.
`plugin.py` switches one off inside pytest; `__main__.py` goes through the table.
"""
