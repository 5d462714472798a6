"""One command per daemon, and `daemons` for all of them."""
