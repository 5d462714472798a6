"""Commands that serve the project and control the embedded PostgreSQL."""
