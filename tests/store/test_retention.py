from __future__ import annotations

import math

from surefoot.store.retention import best_first, kept_steps


def test_the_newest_stay() -> None:
    metrics = dict.fromkeys([1, 2, 3, 4], None)
    assert kept_steps(metrics, keep_last=2, keep_every=None, keep_best=True) == {3, 4}


def test_the_best_stays_and_of_equals_the_later() -> None:
    metrics = {1: 5.0, 2: 5.0, 3: 1.0, 4: None}
    assert kept_steps(metrics, keep_last=1, keep_every=None, keep_best=True) == {2, 4}
    assert kept_steps(metrics, keep_last=1, keep_every=None, keep_best=False) == {4}


def test_nan_is_never_the_best() -> None:
    assert best_first({1: math.nan, 2: -math.inf, 3: None, 4: 0.0}) == [4, 2]


def test_the_first_of_each_interval_stays_although_no_step_is_a_multiple() -> None:
    metrics = dict.fromkeys([2048, 4096, 10240, 12288, 20480], None)
    assert kept_steps(metrics, keep_last=1, keep_every=10_000, keep_best=True) == {2048, 10240, 20480}


def test_what_stays_once_stays_when_rules_are_applied_again() -> None:
    """Removing step by step gives what removing at the end gives."""
    kept: set[int] = set()
    for step in range(0, 100, 3):
        metrics = dict.fromkeys(sorted({*kept, step}), None)
        kept = kept_steps(metrics, keep_last=2, keep_every=20, keep_best=True)
    assert kept == {0, 21, 42, 60, 81, 96, 99}
