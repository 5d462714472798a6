"""The web pages for people, which need neither a log-in nor scripts."""
