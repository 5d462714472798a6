"""The rules by package of `scheduler`, each with its switch and its tests."""
