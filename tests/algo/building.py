"""Learners for tests."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from surefoot.algo.batch import Batch, flatten, head_statistics_of
from surefoot.algo.coefficients import Coefficients, rewards_entropy
from surefoot.algo.estimate import Estimates, estimate, predict
from surefoot.algo.learner import IterationRecord, Learner
from surefoot.algo.record import UpdateRecord
from surefoot.algo.step import EagerStep
from surefoot.config import from_flat
from surefoot.rollout.buffer import Rollout
from surefoot.rollout.make import EnvLike, make_envs
from surefoot.vector.interface import Envs
from surefoot.worlds import register_envs

register_envs()


def learner_on(envs: Envs, **settings: Any) -> Learner:
    """A learner on opened environments; unless said otherwise small networks, and a critic that predicts as it is."""
    settings = {"policy": {"hidden_sizes": (16,)}, "critic": {"popart": False}} | settings
    return Learner(from_flat(**{"n_envs": envs.n_envs, "compile": False} | settings), envs)


def make_learner(env: EnvLike = "CartPole-v1", **settings: Any) -> Learner:
    """A learner on an id or a callable, four envs and rollouts of 16 steps unless said otherwise."""
    settings = {"n_envs": 4, "n_steps": 16, "batch_size": 16, "n_epochs": 2} | settings
    return learner_on(make_envs(env, settings["n_envs"], settings.pop("env_kwargs", {})), **settings)


def iterate(learner: Learner, times: int, total: int | None = None) -> list[IterationRecord]:
    """Collect and learn."""
    return [learner.learn(learner.collect(), total or times) for _ in range(times)]


def updates(learner: Learner, times: int, total: int | None = None) -> list[UpdateRecord]:
    """Collect and learn; only what the updates did."""
    return [record.update for record in iterate(learner, times, total)]


def values_of(learner: Learner) -> Tensor:
    """A copy of all parameters."""
    return learner.flat.values.clone()


def by_part(learner: Learner, vector: Tensor) -> dict[str, Tensor]:
    """The pieces of a vector of all parameters that belong to each part of the policy."""
    return {part: vector[where] for part, where in learner.flat.slices.items()}


def batch_of(learner: Learner, rollout: Rollout) -> Batch:
    """All rows of a rollout, in order, ready for the objective."""
    estimates = estimates_of(learner, rollout)
    statistics = head_statistics_of(rollout, learner.family, learner.device, rewards_entropy(learner.config.ppo))
    rows = flatten(rollout, estimates, learner.device, statistics)
    return rows.rows(torch.arange(rows.weight.shape[0]))


def gradient_of(learner: Learner, batch: Batch, coefficients: Coefficients | None = None, **changes: Any) -> Tensor:
    """Gradient of the loss over a batch under the learner's settings, some of them changed."""
    ppo = learner.config.ppo.model_copy(update=changes)
    step = EagerStep(learner.policy, learner.family, learner.flat, learner.optimizer, ppo, learner.terms)
    step.gradient(batch, coefficients or learner.plan.at(0, 1))
    return learner.flat.gradient.clone()


def shake(learner: Learner, size: float = 0.05, seed: int = 0) -> None:
    """Move every parameter a little, so that no ratio is 1 any more."""
    learner.flat.values.add_(size * torch.randn(learner.flat.values.shape, generator=seeded(seed)))


def seeded(seed: int) -> torch.Generator:
    """A generator of its own."""
    return torch.Generator().manual_seed(seed)


def estimates_of(learner: Learner, rollout: Rollout) -> Estimates:
    """Of a rollout whose rewards the learner's normalizer has counted."""
    reward, scale = rollout.reward, 1.0
    if learner.rewards is not None:
        learner.rewards.update_statistics(reward, rollout.done, rollout.valid)
        reward, scale = learner.rewards(reward), learner.rewards.scale
    predictions = predict(rollout, learner.policy)
    return estimate(rollout, reward, predictions, learner.policy.critic, learner.config.ppo, learner.risk, scale)
