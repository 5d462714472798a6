"""The public pages of leaderboards."""
