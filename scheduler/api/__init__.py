"""The API for programs: JSON over HTTP under `/api/v1/`, with bearer tokens."""
