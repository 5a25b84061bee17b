"""The actor in numpy against the actor in torch."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from surefoot import PPO
from surefoot.fast.acceleration import memories
from surefoot.fast.cpu_actor import CpuActor
from surefoot.fast.decision import has_compiler
from surefoot.fast.kernel import load_kernel
from surefoot.fast.recurrence import recur

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
    observation = torch.randn(5, 3, *(gymnasium.make(env).observation_space.shape or ()))
    for _ in range(2):
        with torch.no_grad():
            expected = agent.learner.policy.action_parameters({"obs": observation[2]}).numpy()
        found = np.zeros((4, *expected.shape), np.float32)
        few = CpuActor.of(agent.learner.policy, {"obs": observation.numpy()}, np.zeros((5, 3, 0), np.float32), found)
        assert few is not None
        few(2)
        np.testing.assert_allclose(found[2], expected, rtol=0, atol=1e-6)
        agent.learn(48)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_the_compiled_actor_gives_the_same_parameters_for_every_type_of_number(env: str, dtype: type[Any]) -> None:
    agent = PPO(env, n_envs=3, n_steps=16, compile=False)
    policy = agent.learner.policy
    seen = (np.random.default_rng(0).normal(size=(5, 3, 4 if env == "CartPole-v1" else 3)) * 5).astype(dtype)
    found = np.zeros((2, 4, 3, 2), np.float32)
    for kernel, rows in zip((None, load_kernel()), found, strict=True):
        few = CpuActor.of(policy, {"obs": seen}, np.zeros((5, 3, 0), np.float32), rows)
        assert few is not None
        few.refresh(kernel)
        for t in (0, 3, 1):
            few(t)
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-6)
    assert np.abs(found[0][3]).max() > 0


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
    agent = PPO("Pendulum-v1", n_envs=3, n_steps=16, batch_size=48, compile=False, memory=memory, policy=policy)
    wanted = agent.learner.policy
    if compiled:
        for part in memories(wanted):
            part.scan = recur
    agent.learn(96)
    observation, state = torch.randn(21, 3, 3) * 3, torch.zeros(3, wanted.state_size)
    found, seen = np.zeros((20, 3, 2), np.float32), np.zeros((21, 3, wanted.state_size), np.float32)
    few = CpuActor.of(wanted, {"obs": observation.numpy()}, seen, found)
    assert few is not None
    few.refresh(load_kernel() if compiled else None)
    for t in range(20):
        with torch.no_grad():
            parameters, state = wanted.step({"obs": observation[t]}, state)
        few(t)
        np.testing.assert_allclose(found[t], parameters.numpy(), rtol=0, atol=2e-6)
        np.testing.assert_allclose(seen[t + 1], state.numpy(), rtol=0, atol=2e-6)


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
    state = np.zeros((9, 2, agent.learner.policy.state_size), np.float32)
    assert CpuActor.of(agent.learner.policy, {"obs": np.zeros((9, 2, 4))}, state, np.zeros((8, 2, 2))) is None
    agent.learn(16)
