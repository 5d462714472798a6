"""The public pages of leaderboards, accounts and badges."""
