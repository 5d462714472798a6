"""One statement per invariant: its first line says what holds, its rows break it."""
