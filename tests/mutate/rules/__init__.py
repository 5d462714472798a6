"""The rules by room, each with its switch and the tests that hold it."""
