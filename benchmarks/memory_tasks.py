"""The tasks of the memory benchmark: world, agents, settings, optimum and published figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ZOO = "https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md"


@dataclass(frozen=True)
class Agent:
    """One way to meet a task: what it sets beside the task's own settings."""

    name: str
    ppo: Mapping[str, Any] = field(default_factory=dict)
    world: Mapping[str, Any] = field(default_factory=dict)
    system: str = "surefoot"


def remembering(kind: str, **settings: Any) -> Agent:
    return Agent(kind, {"memory": {"kind": kind, "hidden_size": 64, **settings}})


ZOO_NETWORK = {"hidden_sizes": [64], "activation": "relu", "ortho_init": False}
AS_SB3_DOES = {
    **remembering("lstm", output_sizes=ZOO_NETWORK["hidden_sizes"]).ppo,
    "policy": {**ZOO_NETWORK, "hidden_sizes": []},
    "normalize_advantage": "minibatch",
    "observation_statistics": "step",
}
"""sb3-contrib has its hidden layers behind the LSTM."""
LSTM = Agent("lstm", AS_SB3_DOES)
NO_MEMORY = Agent("none")
RECALLING = (remembering("lstm", span=60), remembering("gru", span=60), NO_MEMORY)
SB3_CONTRIB = Agent("sb3-contrib", remembering("lstm").ppo, system="sb3-contrib")
FACTORED, FLAT = Agent("factored"), Agent("flat", world={"flat": True})


@dataclass(frozen=True)
class Task:
    """A world, the agents that meet it, and the settings that they share."""

    name: str
    section: str
    world: str
    agents: tuple[Agent, ...]
    total_steps: int
    ppo: Mapping[str, Any]
    """In Surefoot's names; sb3-contrib is given the same."""
    n_seeds: int
    world_settings: Mapping[str, Any] = field(default_factory=dict)
    goal: float | None = None
    """Mean return of a probe at which training stops."""
    probe_every: int = 0
    """Env steps between probes."""
    n_probe_episodes: int = 64
    n_eval_episodes: int = 100
    optimum: float | None = None
    chance: float | None = None
    """What the best policy without memory gets."""
    published: str = ""
    note: str = ""

    def agent(self, name: str) -> Agent:
        (found,) = (each for each in self.agents if each.name == name)
        return found

    def ppo_settings(self, agent: Agent) -> dict[str, Any]:
        return {**self.ppo, **agent.ppo}

    def settings(self, agent: Agent) -> dict[str, Any]:
        """What decides the result, as plain JSON values."""
        return {
            "world": {"name": self.world, **self.world_settings, **agent.world},
            "ppo": self.ppo_settings(agent),
            **{key: getattr(self, key) for key in ("total_steps", "goal", "probe_every", "n_probe_episodes")},
            "n_eval_episodes": self.n_eval_episodes,
        }


RECALL_PPO = {
    "n_envs": 32,
    "n_steps": 128,
    "batch_size": 1024,
    "n_epochs": 6,
    "gamma": 0.95,
    "gae_lambda": 0.95,
    "learning_rate": 2e-3,
    "ent_coef": 0.02,
    "policy": {"hidden_sizes": [64]},
}


ONLY_THE_ANSWER = "γ is low because only the answer matters; what is discounted is reward, not what is remembered."


def recalling(
    name: str, world: str, total_steps: int, chance: float, gamma: float, note: str = "", **world_settings: Any
) -> Task:
    return Task(
        name=name,
        section="recall",
        world=world,
        world_settings=world_settings,
        agents=RECALLING,
        total_steps=total_steps,
        ppo={**RECALL_PPO, "gamma": gamma},
        note=note,
        n_seeds=3,
        goal=0.985,
        probe_every=8_192,
        n_eval_episodes=400,
        optimum=1.0,
        chance=chance,
    )


def greenhouse(name: str, n_dials: int, total_steps: int) -> Task:
    return Task(
        name=name,
        section="factored",
        world="greenhouse",
        world_settings={"n_dials": n_dials},
        agents=(FACTORED, FLAT),
        total_steps=total_steps,
        ppo={
            "n_envs": 16,
            "n_steps": 64,
            "batch_size": 256,
            "n_epochs": 4,
            "gamma": 0.5,
            "gae_lambda": 0.9,
            "learning_rate": 1e-3,
            "policy": {"hidden_sizes": [64, 64]},
        },
        n_seeds=3,
        goal=0.99 * 32,
        probe_every=2_000,
        n_probe_episodes=32,
        optimum=32.0,
    )


def outside(name: str, total_steps: int, chance: float, note: str) -> Task:
    return Task(
        name=name,
        section="popgym",
        world="popgym",
        world_settings={"name": name},
        agents=RECALLING,
        total_steps=total_steps,
        ppo={**RECALL_PPO, "gamma": 0.5},
        n_seeds=3,
        optimum=1.0,
        chance=chance,
        note=note,
    )


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        recalling("Recall, 5 distractors", "recall", 60_000, 0.25, 0.5, ONLY_THE_ANSWER, k=5),
        recalling("Recall, 20 distractors", "recall", 120_000, 0.25, 0.5, ONLY_THE_ANSWER, k=20),
        recalling("Recall, 50 distractors", "recall", 300_000, 0.25, 0.5, ONLY_THE_ANSWER, k=50),
        recalling("T-maze, corridor of 10", "t-maze", 100_000, 0.5, 0.95, length=10),
        greenhouse("Greenhouse, 3 heads", 0, 120_000),
        greenhouse("Greenhouse, 8 heads", 5, 120_000),
        Task(
            name="CartPole without velocities",
            section="velocities",
            world="without velocities",
            world_settings={"env_id": "CartPole-v1"},
            agents=(LSTM, SB3_CONTRIB),
            total_steps=100_000,
            ppo={
                "n_envs": 8,
                "n_steps": 32,
                "batch_size": 256,
                "n_epochs": 20,
                "gamma": 0.98,
                "gae_lambda": 0.8,
                "learning_rate": "linear(1e-3, 0)",
                "clip_range": "linear(0.2, 0)",
                "ent_coef": 0.0,
                "normalize_observations": True,
                "normalize_rewards": True,
                "policy": ZOO_NETWORK,
            },
            n_seeds=5,
            optimum=500.0,
            published=f"500.0 ± 0.0 ([zoo]({ZOO}))",
        ),
        Task(
            name="Pendulum without velocities",
            section="velocities",
            world="without velocities",
            world_settings={"env_id": "Pendulum-v1"},
            agents=(LSTM, SB3_CONTRIB),
            total_steps=100_000,
            ppo={
                "n_envs": 4,
                "n_steps": 1024,
                "batch_size": 128,
                "n_epochs": 10,
                "gamma": 0.9,
                "gae_lambda": 0.95,
                "learning_rate": 1e-3,
                "clip_range": 0.2,
                "ent_coef": 0.0,
                "normalize_observations": True,
                "normalize_rewards": True,
                "policy": ZOO_NETWORK,
            },
            n_seeds=5,
            published=f"−217.9 ± 140.1 ([zoo, with gSDE]({ZOO}))",
            note="No gSDE on either side.",
        ),
        outside(
            "RepeatPreviousEasy",
            200_000,
            2 * 13 / 51 - 1,
            "Without memory: another suit than the one in sight, which 13 of the other 51 cards have.",
        ),
        outside(
            "CountRecallEasy",
            600_000,
            (52 / 26 + 52 / 27) / 51 - 1,
            "Without memory: one number where the colours in sight and in question are the same, another where they "
            "differ; a count stays for 52/26 and 52/27 steps on average. Who only counts the steps gets −0.41.",
        ),
    )
}


def wanted_settings(record: Mapping[str, Any]) -> dict[str, Any]:
    """Those that a kept run must have been made with."""
    task = TASKS[record["task"]]
    return task.settings(task.agent(record["agent"]))
