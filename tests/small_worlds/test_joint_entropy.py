"""The entropy bonus raises the joint entropy of factored actions to the largest that there is (P13)."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from surefoot import PPO, HeadSpec
from surefoot.algo.learner import IterationRecord


class Indifferent(gymnasium.Env[Any, Any]):
    """Nothing is rewarded; the slot matters for ACT only, so that there are nine different actions."""

    action_heads: Any = (HeadSpec("op", ("WAIT", "ACT")), HeadSpec("slot", 8, relevant_when={"op": "ACT"}))

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space: spaces.Space[Any] = spaces.MultiDiscrete([2, 8])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.ones(1, np.float32), 0.0, True, False, {}


class Masked(Indifferent):
    """For ACT_A two of the slots are legal, for ACT_B the other five, so that there are 1 + 2 + 5 actions."""

    action_heads = (HeadSpec("op", ("WAIT", "ACT_A", "ACT_B")), HeadSpec("slot", 8, relevant_when={"op": (1, 2)}))

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.MultiDiscrete([3, 8])

    def action_masks(self) -> Any:
        return [True] * 3 + [False] * 8 + [True] * 2 + [False] * 9 + [True] * 5


def agent_on(env: type[Indifferent]) -> PPO:
    return PPO(
        env,
        n_envs=4,
        n_steps=16,
        batch_size=64,
        n_epochs=4,
        learning_rate=0.01,
        ent_coef=0.1,
        seed=0,
        compile=False,
        policy={"hidden_sizes": (4,)},
    )


def joint_entropy(agent: PPO, mask: list[bool] | None = None) -> float:
    with torch.no_grad():
        parameters = agent.learner.policy.action_parameters({"obs": torch.ones(1, 1)})
        return float(agent.learner.family.bind(parameters, None if mask is None else torch.tensor([mask])).entropy())


@pytest.mark.parametrize(("env", "n_actions"), [(Indifferent, 9), (Masked, 8)])
def test_without_reward_the_joint_entropy_rises_to_its_largest_value(env: type[Indifferent], n_actions: int) -> None:
    agent = agent_on(env)
    mask = Masked().action_masks() if env is Masked else None
    entropies = [joint_entropy(agent, mask)]

    def note(agent: PPO, record: IterationRecord) -> bool:
        entropies.append(joint_entropy(agent, mask))
        return True

    agent.learn(35 * 64, callback=note)
    assert entropies[-1] == pytest.approx(math.log(n_actions), abs=0.01)
    assert min(entropies) >= entropies[0] - 1e-3


def test_the_largest_joint_entropy_is_kept() -> None:
    agent = agent_on(Indifferent)
    agent.learner.flat.named()["output.linear.bias"][1] = math.log(8.0)
    assert joint_entropy(agent) == pytest.approx(math.log(9.0), abs=0.01)
    agent.learn(25 * 64)
    assert joint_entropy(agent) == pytest.approx(math.log(9.0), abs=0.01)
    assert agent.logger_values["train/entropy"] == pytest.approx(math.log(9.0), abs=0.01)
