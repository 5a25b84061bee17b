"""Every row once an epoch, in minibatches of one size."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from algo.building import batch_of, gradient_of, learner_on, make_learner, seeded, shake, updates
from surefoot.algo.batch import Batch, RowBatches
from surefoot.algo.learner import Learner
from surefoot.errors import SurefootWarning
from vector.worlds import Ending, Scripted, open_envs


def learner_with(rows: int, size: int, **settings: Any) -> Learner:
    """One env, so that the rollout has as many rows as it has steps."""
    options = {"n_envs": 1, "n_steps": rows, "batch_size": size} | settings
    if rows % size == 0:
        return make_learner("CartPole-v1", **options)
    with pytest.warns(SurefootWarning, match=rf"{rows} rows.*batch_size {size}.*has {rows % size} rows"):
        return make_learner("CartPole-v1", **options)


def epoch(learner: Learner, batch: Batch, seed: int = 0) -> list[Batch]:
    return list(RowBatches(batch, learner.config).epoch(seeded(seed)))


SIZES = [(24, 8), (24, 24), (24, 1), (25, 8), (9, 8), (23, 7), (17, 16)]


@pytest.mark.parametrize(("rows", "size"), SIZES)
def test_every_row_is_taken_once(rows: int, size: int) -> None:
    learner = learner_with(rows, size, normalize_advantage="none")
    found = epoch(learner, batch_of(learner, learner.collect()))
    assert [piece.weight.shape[0] for piece in found] == [size] * -(-rows // size)
    taken = torch.cat([piece.row[piece.weight > 0] for piece in found])
    assert sorted(taken.tolist()) == list(range(rows))


@pytest.mark.parametrize(("rows", "size"), SIZES)
def test_all_columns_of_a_row_stay_together(rows: int, size: int) -> None:
    learner = learner_with(rows, size, normalize_advantage="none")
    batch = batch_of(learner, learner.collect())
    for piece in epoch(learner, batch):
        assert torch.equal(piece.observation["obs"], batch.observation["obs"][piece.row])
        for name in ("action", "log_prob", "parameters", "advantages", "returns", "prediction"):
            assert torch.equal(getattr(piece, name), getattr(batch, name)[piece.row])


def test_rows_that_are_no_transitions_have_no_weight() -> None:
    learner = learner_on(open_envs("next-step", [Scripted]), n_steps=24, batch_size=8)
    rollout = learner.collect()
    found = epoch(learner, batch_of(learner, rollout))
    taken = torch.cat([piece.row[piece.weight > 0] for piece in found])
    assert sorted(taken.tolist()) == torch.nonzero(rollout.valid[:, 0])[:, 0].tolist()
    assert len(taken) < 24


def test_each_epoch_has_its_own_order_and_equal_generators_the_same() -> None:
    learner = learner_with(24, 8)
    batch = batch_of(learner, learner.collect())
    generator = seeded(3)
    first, second = (torch.cat([p.row for p in RowBatches(batch, learner.config).epoch(generator)]) for _ in range(2))
    assert not torch.equal(first, second)
    assert torch.equal(torch.cat([p.row for p in epoch(learner, batch, 3)]), first)


def test_a_padded_minibatch_has_the_gradient_of_the_smaller_one() -> None:
    learner = learner_with(21, 8)
    batch = batch_of(learner, learner.collect())
    shake(learner)
    last = epoch(learner, batch)[-1]
    assert last.weight.tolist() == [1.0] * 5 + [0.0] * 3
    smaller = last.rows(slice(0, 5))
    gradient = gradient_of(learner, smaller)
    assert gradient.abs().max() > 1e-3
    assert torch.allclose(gradient_of(learner, last), gradient, atol=1e-6)


def test_the_rest_is_trained_on() -> None:
    """25 rows in minibatches of 8 make four gradient steps an epoch, the last on one row."""
    learner = learner_with(25, 8, n_epochs=3)
    (record,) = updates(learner, 1)
    assert record.gradient_steps == 3 * 4


def test_a_minibatch_without_transition_makes_no_step() -> None:
    """One-step episodes under NEXT_STEP: every second row of the only env is a reset."""
    envs = open_envs("next-step", [lambda: Scripted(0, (Ending(1, True, False),))])
    learner = learner_on(envs, n_steps=8, batch_size=1, n_epochs=1, normalize_advantage="none")
    (record,) = updates(learner, 1)
    assert record.gradient_steps == 4
