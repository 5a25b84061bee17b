"""Optimisers over one flat parameter vector."""
