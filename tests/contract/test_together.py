"""Memory, masks, factored heads and a distributional twin critic in one agent: replay is exact, and so is a resume.

Combinations are where parts that work alone go wrong; a new part adds a line to TOGETHER.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from contract.dead_heads import legal_flags
from surefoot import PPO
from surefoot.worlds import Greenhouse, register_envs

register_envs()

QUANTILE_TWIN: dict[str, Any] = {"kind": "quantile", "n_quantiles": 8, "twin": "heads"}
TOGETHER: dict[str, dict[str, Any]] = {
    "heads and masks": {},
    "lstm": {"memory": {"kind": "lstm", "hidden_size": 8}},
    "gru, cut sequences with burn-in": {
        "memory": {"kind": "gru", "hidden_size": 8, "max_length": 5, "burn_in": 2},
    },
    "lstm, quantile twin critic": {"memory": {"kind": "lstm", "hidden_size": 8}, "critic": QUANTILE_TWIN},
    "everything": {
        "memory": {"kind": "lstm", "hidden_size": 8},
        "critic": QUANTILE_TWIN | {"popart": True},
        "normalize_observations": True,
        "normalize_rewards": True,
        "ent_coef": 0.01,
        "head_ent_coefs": {"slot": "linear(0.02, 0)"},
        "head_ent_coef_floors": {"slot": 0.005},
        "target_kl": 0.5,
        "kl_estimator": "exact",
    },
}
together = pytest.mark.parametrize("settings", TOGETHER.values(), ids=TOGETHER.keys())
EIGHT_HEADS = {"n_dials": 5, "n_levels": 2, "episode_length": 11}
STEPS = 2 * 4 * 16


def agent(settings: dict[str, Any], seed: int = 0) -> PPO:
    return PPO(
        "surefoot/Greenhouse-v0",
        env_kwargs=EIGHT_HEADS,
        n_envs=4,
        n_steps=16,
        batch_size=32,
        n_epochs=2,
        total_timesteps=2 * STEPS,  # which schedules span
        seed=seed,
        policy={"hidden_sizes": (16,)},
        **({"compile": False} | settings),
    )


@together
def test_replaying_a_rollout_gives_the_old_probabilities(settings: dict[str, Any]) -> None:
    """P10, M01: with memory, masks, padding and heads the first ratio is 1, in every update."""
    learner = agent(settings).learner
    for _ in range(4):
        record = learner.learn(learner.collect(), 4).update
        assert record.log_ratio_first <= 1e-5
        assert record.gradient_steps > 0
        assert math.isfinite(record.loss)
        assert set(record.heads) == {"op", "slot", "kind", "water", "light", "heat", "feed", "trim"}


@together
def test_a_continued_run_equals_an_uninterrupted_one(settings: dict[str, Any], tmp_path: Path) -> None:
    """Y02: through files, bit for bit."""
    continued_equals_uninterrupted(settings, tmp_path)


def continued_equals_uninterrupted(settings: dict[str, Any], tmp_path: Path) -> None:
    straight = agent(settings).learn(STEPS)
    straight.save(tmp_path / "half")
    straight.learn(STEPS)
    resumed = PPO.load(tmp_path / "half").learn(STEPS)
    assert resumed.num_timesteps == straight.num_timesteps == 2 * STEPS
    assert torch.equal(resumed.learner.flat.values, straight.learner.flat.values)
    one, other = resumed.learner.state_dict(), straight.learner.state_dict()
    assert one.exact
    assert one.values == other.values
    assert one.tensors.keys() == other.tensors.keys()
    assert all(torch.equal(one.tensors[name], other.tensors[name]) for name in one.tensors)


@together
def test_stored_masks_forbid_what_was_not_done(settings: dict[str, Any]) -> None:
    learner = agent(settings).learner
    rollout = learner.collect()
    assert rollout.mask is not None
    assert rollout.mask.shape[2] == learner.envs.mask_form.conditional_width
    form = learner.envs.mask_form
    for t in range(rollout.n_steps):
        for env in range(rollout.n_envs):
            op, slot = (int(x) for x in rollout.action[t, env, :2])
            row = rollout.mask[t, env].numpy()
            assert legal_flags(form, row, 0)[op]
            assert op == 0 or legal_flags(form, row, 1, op)[slot]


@pytest.mark.parametrize("workers", [0, 2])
def test_it_learns_with_everything_on(workers: int) -> None:
    """A few updates are enough to be far from random."""
    settings = TOGETHER["everything"] | {"learning_rate": 5e-3, "n_epochs": 6, "workers": workers}
    learned = PPO("surefoot/Greenhouse-v0", n_envs=4, n_steps=32, batch_size=64, compile=False, gamma=0.0, **settings)
    learned.learn(3_000)
    world = Greenhouse()
    assert world.score(learned.evaluate(8, seed=1).mean) > 0.5
    learned.close()
