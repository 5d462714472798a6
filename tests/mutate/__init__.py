"""`make mutate`: every rule is switched off once, and a test must notice.

`switches.py` is the table: a rule in words, how to switch it off, and which tests hold it.
`plugin.py` switches one off inside pytest; `__main__.py` goes through the table.
"""
