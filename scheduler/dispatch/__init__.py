"""Which host gets which result: search, claim and the catalog of apps."""
