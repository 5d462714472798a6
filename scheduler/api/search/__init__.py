"""The parameter `filter` of lists: a JSON expression over a fixed set of fields.

`expressions` reads an expression and returns a condition; `fields` has the fields of each list.
"""
