"""Further pages of workunits in the administration."""
