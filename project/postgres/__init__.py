"""Django's PostgreSQL engine, which finds or starts the embedded server when first needed."""
