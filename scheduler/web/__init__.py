"""The public web pages, which work without a log-in and without JavaScript."""
