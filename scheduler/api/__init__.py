"""The face for programs: JSON over HTTP under `/api/v1/`, by tokens."""
