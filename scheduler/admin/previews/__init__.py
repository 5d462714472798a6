"""The previews of actions that need more than the common confirmation page."""
