"""The P&L of the book against a slow twin that only counts cash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.hedging import pnl_of_path
from surefoot.errors import ConfigError, EnvError
from surefoot.hedging.book import Book
from surefoot.hedging.dynamics import DYNAMICS, BlackScholes, Floats, State

Array = np.ndarray[Any, Any]


class Given(BlackScholes):
    """A spot that follows a list instead of chance."""

    path = (100.0, 110.0, 90.0, 104.0)

    def step(self, rng: np.random.Generator, state: State) -> State:
        at = self.path.index(float(state[0, 0]))
        return np.full_like(state, self.path[at + 1])


def run(book: Book, actions: Array, seed: int) -> tuple[Floats, list[Floats], list[Array]]:
    """Rewards [T, N], prices [instruments, N] of day 0 … T, who had expired."""
    rng = np.random.default_rng(seed)
    book.open_all(rng)
    rewards, prices, expired = [], [book.prices.copy()], []
    for action in actions:
        reward, done = book.trade(rng, action)
        rewards.append(reward)
        expired.append(done)
        prices.append(book.prices.copy())
    return np.array(rewards), prices, expired


def test_three_days_by_hand() -> None:
    """Hold ½, ¼, 1 of a share at 100, 110, 90; it ends at 104. Cost 1 %.

    Day 0: premium + ½·10 − 0.01·½·100 = premium + 4.5.  Day 1: ¼·(−20) − 0.01·¼·110 = −5.275.
    Day 2: 14 − 0.01·¾·90 = 13.325, and at maturity − 4 − 0.01·104 = −5.04.
    """
    dynamics = Given(n_steps=3)
    book = Book(dynamics, 0.01, 1)
    rewards, _, expired = run(book, np.array([[[0.5]], [[0.25]], [[1.0]]]), seed=0)
    assert rewards[:, 0] == pytest.approx([dynamics.premium + 4.5, -5.275, 13.325 - 5.04])
    assert [bool(each[0]) for each in expired] == [False, False, True]
    assert book.pnl[0] == pytest.approx(dynamics.premium + 7.51)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(DYNAMICS)),
    st.sampled_from([0.0, 0.001, 0.01, 0.2]),
    st.integers(0, 2**32),
    st.integers(1, 9),
)
def test_rewards_add_up_to_the_pnl_of_the_slow_twin(name: str, cost_rate: float, seed: int, n_steps: int) -> None:
    kind: Any = DYNAMICS[name]
    dynamics = kind(n_steps=n_steps)
    book = Book(dynamics, cost_rate, 3)
    limits = np.array(dynamics.position_limits)
    actions = np.random.default_rng(seed + 1).uniform(-0.2, 1.2, (n_steps, 3, len(limits))) * limits
    rewards, prices, expired = run(book, actions, seed)
    held = np.clip(actions, 0.0, limits)
    for i in range(3):
        path = [day[:, i].tolist() for day in prices]
        expected = pnl_of_path(path, held[:, i].tolist(), dynamics.premium, dynamics.strike, cost_rate)
        assert rewards[:, i].sum() == pytest.approx(expected, abs=1e-9)
        assert book.pnl[i] == sum(rewards[:, i].tolist())  # bit for bit: added in the same order
    assert expired[-1].all()
    assert not np.any(expired[:-1])


@pytest.mark.parametrize("name", sorted(DYNAMICS))
def test_new_options_are_sold_where_asked_and_nothing_else_changes(name: str) -> None:
    kind: Any = DYNAMICS[name]
    dynamics, rng = kind(n_steps=9), np.random.default_rng(1)
    limits = np.array(dynamics.position_limits)
    book, fresh = Book(dynamics, 0.01, 4), Book(dynamics, 0.01, 4)
    book.open_all(rng)
    fresh.open_all(rng)
    for _ in range(3):
        book.trade(rng, np.tile(0.4 * limits, (4, 1)))
    before = book.state_dict()
    renewed = np.array([False, True, False, True])
    book.open(rng, renewed)
    for field, values in book.state_dict().items():
        np.testing.assert_array_equal(values[..., ~renewed], before[field][..., ~renewed], err_msg=field)
        np.testing.assert_array_equal(values[..., renewed], getattr(fresh, field)[..., renewed], err_msg=field)
    reward, _ = book.trade(rng, np.zeros((4, len(limits))))
    assert reward[renewed] == pytest.approx(dynamics.premium)
    assert (reward[~renewed] < 0).all()  # they pay for selling what they held


def test_a_wrong_shape_and_a_nan_are_named() -> None:
    book = Book(BlackScholes(), 0.0, 3)
    rng = np.random.default_rng(0)
    book.open_all(rng)
    with pytest.raises(EnvError, match=r"shape \(3,\), expected \(3, 1\)"):
        book.trade(rng, np.zeros(3))
    with pytest.raises(EnvError, match="action of env 1 is"):
        book.trade(rng, np.array([[0.0], [np.nan], [0.5]]))


@pytest.mark.parametrize("cost_rate", [-0.01, 1.0, float("nan"), float("inf")])
def test_an_impossible_cost_rate_is_refused(cost_rate: float) -> None:
    with pytest.raises(ConfigError, match="cost_rate = "):
        Book(BlackScholes(), cost_rate, 1)
