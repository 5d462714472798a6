"""The pages of teams: a list, a page of each, and the tools of members and founders."""
