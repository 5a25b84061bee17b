"""One system on one workload, driven line by line: reads ``run K`` and answers with what K iterations took.

A child process per system keeps thread pools, compilers and random streams apart; the parent lets the children run in
turns, so that noise of the machine falls on all alike.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from surefoot.actions.heads import HeadSpec


@dataclass(frozen=True)
class Workload:
    """What every system does: the same env steps and the same gradient steps."""

    env: str
    n_envs: int = 8
    n_steps: int = 256
    batch_size: int = 64
    n_epochs: int = 10
    hidden: tuple[int, int] = (64, 64)
    memory: int = 0
    masked: bool = False
    wrapped: bool = False
    """CartPole under a wrapper that may ask for a factored action: flat and factored step the same env."""
    max_steps: int | None = None
    """Episodes are cut after so many."""
    threads: int = 1
    still: bool = False
    """A learning rate that moves nothing: all systems see episodes of the same lengths, so that what differs is their
    cost and not their play."""

    @property
    def env_steps(self) -> int:
        """Of one iteration."""
        return self.n_envs * self.n_steps

    @property
    def gradient_steps(self) -> int:
        """Of one iteration."""
        return self.n_epochs * -(-self.env_steps // self.batch_size)


WORKLOADS = {
    "cartpole": Workload("CartPole-v1"),
    "pendulum": Workload("Pendulum-v1"),
    "wide": Workload("CartPole-v1", n_envs=64, n_steps=128, batch_size=2048, n_epochs=4, hidden=(256, 256)),
    "recurrent": Workload("CartPole-v1", batch_size=512, n_epochs=4, memory=64, threads=2),
    "recurrent-long": Workload("Pendulum-v1", batch_size=512, n_epochs=4, memory=64, threads=2),
    "recurrent-slow": Workload("Acrobot-v1", batch_size=512, n_epochs=4, memory=64, threads=2),
    "recurrent-20": Workload("CartPole-v1", batch_size=512, n_epochs=4, memory=64, max_steps=20, threads=2),
    "recurrent-short": Workload("surefoot/Recall-v0", batch_size=512, n_epochs=4, memory=64, threads=2),
    "recurrent, 1 thread": Workload("CartPole-v1", batch_size=512, n_epochs=4, memory=64),
    "recurrent-20, 1 thread": Workload("CartPole-v1", batch_size=512, n_epochs=4, memory=64, max_steps=20),
    "recurrent-short, 1 thread": Workload("surefoot/Recall-v0", batch_size=512, n_epochs=4, memory=64),
    "batch256": Workload("CartPole-v1", batch_size=256),
    "masked": Workload("CartPole-v1", masked=True),
    "factored": Workload("CartPole-v1", wrapped=True),
    "recurrent-factored": Workload("CartPole-v1", batch_size=512, n_epochs=4, memory=64, wrapped=True, threads=2),
    "options": Workload("CartPole-v1", still=True),
    "options-wide": Workload(
        "CartPole-v1", n_envs=64, n_steps=128, batch_size=2048, n_epochs=4, hidden=(256, 256), still=True
    ),
}
WORKLOADS |= {  # few epochs, since nothing of it is compiled
    f"bfloat16-{width}": Workload("CartPole-v1", batch_size=rows, n_epochs=2, hidden=(width, width), still=True)
    for width, rows in {64: 64, 512: 256, 1024: 512}.items()
}
ATTACK_STEPS = 5
"""K of SA-PPO."""


@dataclass
class Report:
    """Running totals of a system."""

    env_steps: int
    gradient_steps: int
    mean_return: float


class Masked(gym.Wrapper[Any, Any, Any, Any]):
    """All actions legal, but said by a mask."""

    def action_masks(self) -> Any:
        return np.ones(2, bool)


class Push(gym.ActionWrapper[Any, Any, Any]):
    """CartPole, pushed by the first head of a factored action, whose other heads change nothing; or by a flat one."""

    def __init__(self, env: gym.Env[Any, Any], factored: bool) -> None:
        super().__init__(env)
        self._legal = {"push": np.ones(2, bool), "much": np.array([True, True, False]), "long": np.ones(4, bool)}
        self._factored = factored
        if factored:
            self.action_space = gym.spaces.MultiDiscrete([2, 3, 4])
            self.action_heads = (
                HeadSpec("push", 2),
                HeadSpec("much", 3, relevant_when={"push": 1}),
                HeadSpec("long", 4),
            )
            self.action_masks = lambda: self._legal

    def action(self, action: Any) -> Any:
        return action[0] if self._factored else action


def make_env(workload: Workload, factored: bool = False) -> Callable[[], gym.Env[Any, Any]]:
    """Maker of one env."""
    if workload.wrapped:
        return lambda: Push(gym.make(workload.env), factored)
    if workload.max_steps is not None:
        return lambda: gym.make(workload.env, max_episode_steps=workload.max_steps)
    if workload.env.startswith("surefoot/"):
        from surefoot.worlds import register_envs

        register_envs()
    return lambda: Masked(gym.make(workload.env)) if workload.masked else gym.make(workload.env)


def surefoot(
    workload: Workload, factored: bool = False, critic: dict[str, Any] | None = None, **more: Any
) -> tuple[Callable[[int], None], Callable[[], Report]]:
    """Surefoot with further settings; without PopArt, which the peers do not have."""
    from surefoot import PPO

    layers: dict[str, Any] = {"policy": {"hidden_sizes": workload.hidden}}
    if workload.memory:  # hidden layers stand behind the memory, as in sb3-contrib
        memory = {"kind": "lstm", "hidden_size": workload.memory, "output_sizes": workload.hidden}
        layers = {"policy": {"hidden_sizes": ()}, "memory": memory}
    if workload.still:
        more = {"learning_rate": 1e-9} | more
    made = workload.masked or workload.wrapped or workload.max_steps
    env: Any = make_env(workload, factored) if made else workload.env
    agent = PPO(
        env,
        n_envs=workload.n_envs,
        n_steps=workload.n_steps,
        batch_size=workload.batch_size,
        n_epochs=workload.n_epochs,
        threads=workload.threads,
        critic={"popart": False} | (critic or {}),
        **(layers | more),
    )
    steps = [0]

    def count(_: PPO, record: Any) -> None:
        steps[0] += record.update.gradient_steps

    def run(iterations: int) -> None:
        agent.learn(iterations * workload.env_steps, callback=count)

    return run, lambda: Report(agent.num_timesteps, steps[0], agent.logger_values.get("rollout/ep_rew_mean", 0.0))


def peer(algorithm: Any, workload: Workload, **more: Any) -> tuple[Callable[[int], None], Callable[[], Report]]:
    """Stable-Baselines3, its contrib package, or SBX."""
    import torch
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(workload.threads)
    policy_kwargs = {"net_arch": list(workload.hidden)} | more.pop("policy_kwargs", {})
    env = make_vec_env(make_env(workload), n_envs=workload.n_envs, seed=0)
    model = algorithm(
        env=env,
        n_steps=workload.n_steps,
        batch_size=workload.batch_size,
        n_epochs=workload.n_epochs,
        policy_kwargs=policy_kwargs,
        seed=0,
        device="cpu",
        **more,
    )

    def run(iterations: int) -> None:
        model.learn(iterations * workload.env_steps, reset_num_timesteps=False)

    def report() -> Report:
        infos = model.ep_info_buffer or []
        mean = sum(float(info["r"]) for info in infos) / max(len(infos), 1)
        updates = model._n_updates // workload.n_epochs  # they count epochs
        return Report(model.num_timesteps, updates * workload.gradient_steps, mean)

    return run, report


def build(system: str, workload: Workload) -> tuple[Callable[[int], None], Callable[[], Report]]:
    """The system by name."""
    if system == "sb3":
        from stable_baselines3 import PPO

        return peer(PPO, workload, policy="MlpPolicy")
    if system == "sbx":
        from sbx import PPO as SbxPPO

        return peer(SbxPPO, workload, policy="MlpPolicy")
    if system == "sb3-recurrent":
        from sb3_contrib import RecurrentPPO

        lstm = {"lstm_hidden_size": workload.memory}
        return peer(RecurrentPPO, workload, policy="MlpLstmPolicy", policy_kwargs=lstm)
    if system == "sb3-maskable":
        from sb3_contrib import MaskablePPO

        return peer(MaskablePPO, workload, policy="MlpPolicy")
    kinds: dict[str, dict[str, Any]] = {
        "surefoot": {"compile": True},
        "surefoot-eager": {"compile": False},
        "surefoot-normalized": {"compile": True, "normalize_observations": True, "normalize_rewards": True},
        "surefoot-bare": {"compile": True, "diagnostics": False},
        "surefoot-eager-bare": {"compile": False, "diagnostics": False},
        "surefoot-flat": {"compile": True},
        "surefoot-factored": {"compile": True, "factored": True},
        "surefoot-eager-flat": {"compile": False},
        "surefoot-eager-factored": {"compile": False, "factored": True},
        "surefoot-scalar": {"compile": True},
        "surefoot-risk": {
            "compile": True,
            "critic": {"kind": "quantile", "n_quantiles": 32, "twin": "heads"},
            "risk": {"kind": "cvar_constraint", "alpha": 0.1, "limit_per_episode": 10.0},
        },
        "surefoot-upgd": {"compile": True, "optimizer": "upgd"},
        "surefoot-adaupgd": {"compile": True, "optimizer": "adaupgd"},
        "surefoot-vgs": {"compile": True, "vgs": {"alpha": 0.5}},
        "surefoot-imitation": {"compile": True, "imitation": {"coef": 0.1}},
        "surefoot-robust": {"compile": True, "robust": {"kind": "sa_ppo", "units": "raw", "steps": ATTACK_STEPS}},
        "surefoot-kl-penalty": {"compile": True, "kl_coef": 0.1},
        "surefoot-bfloat16": {"compile": False, "autocast": "bfloat16"},
    }
    if system == "surefoot-demonstrations":
        kinds[system] = {"compile": True, "imitation": {"coef": 0.1, "demonstrations": record_at_random(workload)}}
    return surefoot(workload, **kinds[system])


def record_at_random(workload: Workload, n_rows: int = 1000) -> str:
    """A file of demonstrations of no skill, which cost what skilled ones cost."""
    env = make_env(workload)()
    env.action_space.seed(0)
    observations: list[Any] = []
    actions: list[Any] = []
    rewards: list[float] = []
    starts: list[bool] = []
    over = True
    for _ in range(n_rows):
        if over:
            observation, _ = env.reset(seed=len(actions))
        starts.append(over)
        observations.append(observation)
        actions.append(env.action_space.sample())
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        rewards.append(float(reward))
        over = terminated or truncated
    path = Path(tempfile.mkdtemp()) / "demonstrations.npz"
    np.savez(path, observation=observations, action=actions, reward=rewards, episode_start=starts)
    return str(path)


def main() -> None:
    """Serve the parent until it closes the pipe."""
    system, name = sys.argv[1:3]
    answers = sys.stdout
    sys.stdout = sys.stderr
    began = time.perf_counter()
    run, report = build(system, WORKLOADS[name])
    print(json.dumps({"ready": time.perf_counter() - began}), file=answers, flush=True)
    for line in sys.stdin:
        iterations = int(line.split()[1])
        wall, cpu = time.perf_counter(), time.process_time()
        run(iterations)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(json.dumps({"wall": wall, "cpu": cpu} | vars(report())), file=answers, flush=True)


if __name__ == "__main__":
    main()
