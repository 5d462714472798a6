"""The pages of accounts: sign-up, log-in, second factor, the owner's pages."""
