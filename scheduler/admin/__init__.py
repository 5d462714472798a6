"""The face for staff: Django admin."""
