"""Django's PostgreSQL engine, which starts the embedded server when first needed."""
