"""Projection to a grid, one mass at a time."""

from __future__ import annotations

from collections.abc import Sequence


def project(masses: Sequence[float], places: Sequence[float], atoms: Sequence[float]) -> list[float]:
    result = [0.0] * len(atoms)
    for mass, place in zip(masses, places, strict=True):
        if place <= atoms[0]:
            result[0] += mass
        elif place >= atoms[-1]:
            result[-1] += mass
        else:
            k = max(i for i in range(len(atoms)) if atoms[i] <= place)
            share = (place - atoms[k]) / (atoms[k + 1] - atoms[k])
            result[k] += mass * (1.0 - share)
            result[k + 1] += mass * share
    return result
