"""Slow, obvious twins of fast functions, and the tests that hold the two equal."""
