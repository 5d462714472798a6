"""How requests of the API are read and answered: bodies, pages, ETags, problems."""
