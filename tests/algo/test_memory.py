"""Memory in rollout and update against a loop that goes through every env step by step (M01 to M04)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from algo.building import estimates_of, learner_on, shake
from surefoot.algo.batch import SequenceBatches, flatten
from surefoot.algo.estimate import predict
from surefoot.algo.learner import Learner
from surefoot.policy.memory import SequenceBatch
from surefoot.rollout.buffer import Rollout
from surefoot.worlds import TMaze
from vector.worlds import open_envs

MEMORIES: dict[str, dict[str, Any]] = {
    "lstm": {"memory": {"kind": "lstm", "hidden_size": 8}},
    "gru, two layers": {"memory": {"kind": "gru", "hidden_size": 8, "layers": 2}},
    "one for both": {"memory": {"kind": "lstm", "hidden_size": 8, "shared": True}, "policy": {"shared": True}},
}
every_memory = pytest.mark.parametrize("settings", MEMORIES.values(), ids=MEMORIES.keys())
every_source = pytest.mark.parametrize("source", ["group", "next-step"])


def short_maze() -> TMaze:
    """Ends by a turn or, after four steps, by truncation."""
    return TMaze(length=2, time_limit=4)


def learner_of(settings: dict[str, Any], source: str = "group") -> Learner:
    """After one update and a shake, so that nothing is as it was initialized."""
    envs = open_envs(source, [short_maze] * 3)
    learner = learner_on(envs, n_steps=24, batch_size=24, n_epochs=2, **settings)
    learner.learn(learner.collect(), 10)
    shake(learner)
    return learner


def observation_at(rollout: Rollout, t: int, env: int) -> dict[str, Tensor]:
    return {name: x[t, env : env + 1] for name, x in rollout.observation.items()}


def one_by_one(learner: Learner, rollout: Rollout) -> tuple[Tensor, Tensor]:
    """Critic's predictions of all steps and of their true successors, [T, N, K]."""
    here, successors = (torch.zeros(rollout.n_steps, rollout.n_envs, 1) for _ in range(2))
    final = {place: f for f, place in enumerate(zip(rollout.final.t.tolist(), rollout.final.env.tolist(), strict=True))}
    with torch.no_grad():
        for env in range(rollout.n_envs):
            state = rollout.state[0, env : env + 1]
            for t in range(rollout.n_steps):
                if rollout.start[t, env]:
                    state = torch.zeros_like(state)
                seen = observation_at(rollout, t, env)
                here[t, env] = learner.policy.prediction(seen, SequenceBatch.single(state))[0]
                state = learner.policy.step(seen, state).state
                if (t, env) in final:
                    seen = {
                        name: torch.from_numpy(x[final[t, env]][None]) for name, x in rollout.final.observation.items()
                    }
                else:
                    seen = observation_at(rollout, t + 1, env)
                successors[t, env] = learner.policy.prediction(seen, SequenceBatch.single(state))[0]
    return here, successors


@every_source
@every_memory
def test_states_are_those_before_the_step_and_zero_at_each_start(settings: dict[str, Any], source: str) -> None:
    """M01, M02."""
    learner = learner_of(settings, source)
    rollout = learner.collect()
    assert bool(rollout.start[1:].any())
    assert (rollout.state[:-1][rollout.start] == 0).all()
    for env in range(rollout.n_envs):
        for t in range(rollout.n_steps - 1):
            if rollout.valid[t, env] and not rollout.done[t, env]:
                with torch.no_grad():
                    after = learner.policy.step(observation_at(rollout, t, env), rollout.state[t, env : env + 1]).state
                torch.testing.assert_close(rollout.state[t + 1, env], after[0], rtol=0, atol=1e-6)


@every_source
@every_memory
def test_values_and_bootstrap_values_are_those_of_the_loop(settings: dict[str, Any], source: str) -> None:
    """M03: a truncated episode's last value uses the state after its last step, advanced once."""
    learner = learner_of(settings, source)
    rollout = learner.collect()
    assert rollout.final, "some episodes are truncated"
    with torch.no_grad():
        found = predict(rollout, learner.policy)
    valid = rollout.valid
    terminated = rollout.terminated
    for got, expected, counts in zip(found, one_by_one(learner, rollout), (valid, valid & ~terminated), strict=True):
        torch.testing.assert_close(got[counts], expected[counts], rtol=0, atol=1e-5)


@every_memory
@pytest.mark.parametrize(("max_length", "burn_in"), [(None, 0), (2, 0), (2, 1)])
def test_replay_gives_the_old_probabilities(settings: dict[str, Any], max_length: int | None, burn_in: int) -> None:
    """M01, whether sequences are whole or cut."""
    memory = settings["memory"] | {"max_length": max_length, "burn_in": burn_in}
    learner = learner_of(settings | {"memory": memory})
    rollout = learner.collect()
    estimates = estimates_of(learner, rollout)
    batches = SequenceBatches(
        flatten(rollout, estimates, learner.device), rollout, learner.config, learner.updater.step.sizes
    )
    rows = []
    for batch in batches.epoch(torch.Generator().manual_seed(0)):
        with torch.no_grad():
            parameters, prediction = learner.policy(batch.observation, batch.sequences)
        counts = batch.weight > 0
        assert batch.action is not None
        log_prob = learner.family.bind(parameters, batch.mask).log_prob(batch.action)
        torch.testing.assert_close(log_prob[counts], batch.log_prob[counts], rtol=0, atol=1e-5)
        torch.testing.assert_close(prediction[counts], batch.prediction[counts], rtol=0, atol=1e-5)
        rows += batch.row[counts].tolist()
    assert sorted(rows) == np.flatnonzero(rollout.valid.flatten().numpy()).tolist()


def test_states_are_recomputed_in_every_epoch() -> None:
    """M04: once weights have moved, the replayed states are those of the new weights, from the stored starts."""
    learner = learner_of(MEMORIES["lstm"])
    rollout = learner.collect()
    estimates = estimates_of(learner, rollout)
    batches = SequenceBatches(flatten(rollout, estimates, learner.device), rollout, learner.config, lambda *_: ())
    shake(learner, seed=1)
    expected = one_by_one(learner, rollout)[0].flatten(0, 1)
    for batch in batches.epoch(torch.Generator().manual_seed(0)):
        with torch.no_grad():
            _, prediction = learner.policy(batch.observation, batch.sequences)
        torch.testing.assert_close(prediction, expected[batch.row], rtol=0, atol=1e-5)
        assert (prediction - batch.prediction).abs().max() > 1e-3


@every_memory
def test_an_interrupted_rollout_leaves_the_memory_of_the_last_step(settings: dict[str, Any]) -> None:
    learner = learner_of(settings)
    learner.collect()
    steps = iter(range(5))

    def stop() -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.collector.collect(stop)
    assert (learner.collector.state[learner.collector.episode_start] == 0).all()
    after = learner.collector.state.copy()
    rollout = learner.collect()
    np.testing.assert_array_equal(rollout.state[0].numpy(), after)
    assert (rollout.state[:-1][rollout.start] == 0).all()
    assert (np.abs(after).max(1)[~learner.collector.episode_start] > 0).any()


@every_memory
def test_a_rollout_without_a_transition_is_no_harm(settings: dict[str, Any]) -> None:
    learner = learner_of(settings)
    rollout = learner.collect()
    rollout.valid[:] = False
    before = learner.flat.values.clone()
    record = learner.learn(rollout, 1).update
    assert record.gradient_steps == 0
    assert torch.equal(learner.flat.values, before)
