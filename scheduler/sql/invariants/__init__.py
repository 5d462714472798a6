"""One statement per invariant: its first line says what holds, its rows are what breaks it."""
