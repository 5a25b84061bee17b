"""The actor by the kernel against the actor in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from surefoot import PPO
from surefoot.fast.acceleration import memories
from surefoot.fast.compiled_actor import CompiledActor, fits
from surefoot.fast.decision import has_compiler
from surefoot.fast.kernel import load_kernel
from surefoot.fast.recurrence import recur
from surefoot.policy.policy import Policy
from surefoot.rollout.buffer import Rollout

needs_compiler = pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")


def acting_parts(agent: PPO) -> tuple[Policy, Rollout]:
    policy, rollout = agent.learner.policy, agent.learner.collector.rollout
    assert fits(policy, rollout.n_envs)
    return policy, rollout


@needs_compiler
@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("Pendulum-v1", {"policy": {"activation": "relu", "hidden_sizes": (8, 16, 8)}}),
        ("MountainCarContinuous-v0", {"policy": {"hidden_sizes": (), "shared": True}}),
        ("surefoot/IdentityBinary-v0", {"env_kwargs": {"one_hot": False}}),
    ],
)
def test_both_give_the_same_parameters_also_after_learning(env: str, settings: dict[str, Any]) -> None:
    agent = PPO(env, n_envs=3, n_steps=16, compile=False, **settings)
    policy, rollout = acting_parts(agent)
    for _ in range(2):
        seen = rollout.observation["obs"]
        seen.copy_(torch.randn(seen.shape) * 3)
        act = CompiledActor(policy, load_kernel(), rollout)
        for t in (0, 3, 1):
            with torch.no_grad():
                expected = policy.action_parameters({"obs": seen[t]}).numpy()
            act(t)
            np.testing.assert_allclose(rollout.parameters[t].numpy(), expected, rtol=0, atol=1e-6)
        assert float(rollout.parameters[3].abs().max()) > 0
        agent.learn(48)


@needs_compiler
@pytest.mark.parametrize("kind", ["lstm", "gru"])
@pytest.mark.parametrize(("shares_encoder", "shares_memory"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    ("activation", "hidden", "output"),
    [("tanh", (12, 8), ()), ("relu", (7,), (40, 3)), ("relu", (), (6,)), ("tanh", (), ())],
)
def test_both_remember_the_same(
    kind: str,
    shares_encoder: bool,
    shares_memory: bool,
    activation: str,
    hidden: tuple[int, ...],
    output: tuple[int, ...],
) -> None:
    memory = {"kind": kind, "hidden_size": 8, "shared": shares_memory, "output_sizes": output}
    network = {"shared": shares_encoder, "activation": activation, "hidden_sizes": hidden}
    agent = PPO("Pendulum-v1", n_envs=3, n_steps=20, batch_size=60, compile=False, memory=memory, policy=network)
    policy, rollout = acting_parts(agent)
    for part in memories(policy):
        part.scan = recur
    agent.learn(120)
    seen, state = rollout.observation["obs"], torch.zeros(3, policy.state_size)
    seen.copy_(torch.randn(seen.shape) * 3)
    rollout.state[0] = 0.0
    act = CompiledActor(policy, load_kernel(), rollout)
    for t in range(20):
        with torch.no_grad():
            parameters, state = policy.step({"obs": seen[t]}, state)
        act(t)
        np.testing.assert_allclose(rollout.parameters[t].numpy(), parameters.numpy(), rtol=0, atol=2e-6)
        np.testing.assert_allclose(rollout.state[t + 1].numpy(), state.numpy(), rtol=0, atol=2e-6)


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
    assert not fits(agent.learner.policy, 2)
    agent.learn(16)
