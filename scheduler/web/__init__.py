"""The web pages for volunteers and visitors, which work without JavaScript."""
