"""The actor in numpy against the actor in torch."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from surefoot import PPO
from surefoot.algo.compiling import has_compiler
from surefoot.policy.few_rows import FewRows

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("Pendulum-v1", {"policy": {"activation": "relu", "hidden_sizes": (8, 16, 8)}}),
        ("MountainCarContinuous-v0", {"policy": {"hidden_sizes": (), "shared": True}}),
    ],
)
def test_both_give_the_same_parameters_also_after_learning(env: str, settings: dict[str, Any]) -> None:
    agent = PPO(env, n_envs=3, n_steps=16, compile=False, **settings)
    few = FewRows.of(agent.learner.policy, 3)
    assert few is not None
    for _ in range(2):
        observation = torch.randn(3, *(gymnasium.make(env).observation_space.shape or ()))
        with torch.no_grad():
            expected = agent.learner.policy.action_parameters({"obs": observation}).numpy()
        found = np.empty_like(expected)
        few(observation.numpy(), np.zeros((3, 0), np.float32), found)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
        agent.learn(48)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("shares_encoder", "shares_memory"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_compiler)])
@pytest.mark.parametrize(
    ("activation", "hidden", "output"),
    [("tanh", (12, 8), ()), ("relu", (7,), (40, 3)), ("relu", (), (6,)), ("tanh", (), ())],
)
def test_both_remember_the_same(
    kind: str,
    shares_encoder: bool,
    shares_memory: bool,
    compiled: bool,
    activation: str,
    hidden: tuple[int, ...],
    output: tuple[int, ...],
) -> None:
    memory = {"kind": kind, "hidden_size": 8, "shared": shares_memory, "output_sizes": output}
    policy = {"shared": shares_encoder, "activation": activation, "hidden_sizes": hidden}
    agent = PPO("Pendulum-v1", n_envs=3, n_steps=16, batch_size=48, compile=compiled, memory=memory, policy=policy)
    agent.learn(96)
    wanted = agent.learner.policy
    assert (wanted.kernel is not None) is compiled
    few = FewRows.of(wanted, 3)
    assert few is not None
    state = torch.zeros(3, wanted.state_size)
    seen = state.numpy()
    for _ in range(20):
        observation = torch.randn(3, 3) * 3
        with torch.no_grad():
            parameters, _, state = wanted.step({"obs": observation}, state)
        found = np.empty_like(parameters.numpy())
        seen = few(observation.numpy(), seen, found)
        np.testing.assert_allclose(found, parameters.numpy(), rtol=0, atol=2e-6)
        np.testing.assert_allclose(seen, state.numpy(), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {"memory": {"kind": "lstm", "hidden_size": 4, "layers": 2}}),
        (
            "CartPole-v1",
            {
                "memory": {"kind": "gru", "hidden_size": 4, "output_sizes": (4,)},
                "policy": {"hidden_sizes": (), "activation": "elu"},
            },
        ),
        ("CartPole-v1", {"policy": {"layer_norm": True}}),
        ("CartPole-v1", {"policy": {"activation": "gelu"}}),
        ("CartPole-v1", {"policy": {"hidden_sizes": (512, 512)}}),
        ("FrozenLake-v1", {}),
    ],
)
def test_other_policies_act_in_torch(env: str, settings: dict[str, Any]) -> None:
    agent = PPO(env, n_envs=2, n_steps=8, compile=False, **settings)
    assert FewRows.of(agent.learner.policy, 2) is None
    agent.learn(16)
