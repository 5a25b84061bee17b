"""Optimizers over one flat parameter vector."""
