"""The public pages of leaderboards and accounts."""
