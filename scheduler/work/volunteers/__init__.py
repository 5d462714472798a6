"""Reads the results of a volunteer's computers, for the volunteer.

`result_lists.newest` and `oldest` read a page of the list, `own_result.find` one result with its
history.
"""
