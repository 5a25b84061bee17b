"""Selling an option and hedging it: dynamics, the environment, classical strategies."""
