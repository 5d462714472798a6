"""Reads the results of a volunteer's computers, for the volunteer.

`result_lists.newest` reads a page of the list, `own_result.find` one result with its history.
"""
