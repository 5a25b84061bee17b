"""Benchmarks that a user can run from the command line."""
