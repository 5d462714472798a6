"""The pages of teams: a list, and the tools of members and their leaders."""
