"""Tail risk and costs in the objective: multipliers and risk advantages."""
