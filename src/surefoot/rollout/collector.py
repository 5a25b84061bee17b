"""Steps the environments with the policy and fills a rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from surefoot.dists.interface import Family
from surefoot.policy.policy import Policy
from surefoot.rollout.buffer import Rollout
from surefoot.rollout.envs import Envs, Step
from surefoot.rollout.episodes import EpisodeTracker
from surefoot.rollout.guard import Guard, read_costs
from surefoot.rollout.normalise import ObservationNormaliser
from surefoot.spaces import Array

COST_KEY = "cost"


class Collector:
    """Owns what is open between two rollouts: the pending observation and the open episodes."""

    def __init__(
        self,
        envs: Envs,
        policy: Policy,
        family: Family,
        normaliser: ObservationNormaliser | None,
        n_steps: int,
        generator: torch.Generator,
        device: torch.device,
    ) -> None:
        self.envs, self._policy, self._family, self.normaliser = envs, policy, family, normaliser
        self._generator, self._device = generator, device
        n_parameters = family.n_outputs + (0 if family.free is None else family.free.numel())
        self._rollout = Rollout.allocate(n_steps, envs.n_envs, envs.layout, family, n_parameters)
        self._views = {name: tensor.numpy() for name, tensor in self._rollout.observation.items()}
        self.episodes = EpisodeTracker(envs.n_envs)
        self.pending: Mapping[str, Array] | None = None
        self.live = np.ones(envs.n_envs, np.bool_)
        self.vector_steps = 0
        self._guard = Guard()

    def start(self, seed: int) -> None:
        """Reset every env."""
        self.pending = self.envs.reset(seed)
        self.live = np.ones(self.envs.n_envs, np.bool_)
        self._guard.observations(self.pending, 0)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Pending observation and open episodes: tensors, and plain values."""
        started = self.pending is not None
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in (self.pending or {}).items()}
        values = {
            "live": self.live.tolist(),
            "vector_steps": self.vector_steps,
            "episodes": self.episodes.state(),
            "envs": self.envs.state() if started else None,
            "started": started,
        }
        return tensors, values

    def load_state(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any], fresh_seed: int) -> bool:
        """Go on with the open episodes and answer True; or, if the envs could not be saved, start new ones."""
        self.vector_steps = int(values["vector_steps"])
        self.episodes.load_state(values["episodes"])
        if values["envs"] is not None:
            self.envs.load_state(values["envs"])
            self.pending = {name: tensor.numpy().copy() for name, tensor in tensors.items()}
            self.live = np.array(values["live"], np.bool_)
            return True
        if values["started"]:
            self.episodes.drop_open()
            self.start(fresh_seed)
        return not values["started"]

    def collect(self) -> Rollout:
        """Fill the rollout; its storage is used again by the next call."""
        rollout = self._rollout
        rollout.final.clear()
        rollout.ended.clear()
        rollout.first_step = self.vector_steps
        for t in range(rollout.n_steps):
            observation = self._observe(t, see=True)
            action = self._act(t, observation)
            step = self.envs.step(action)
            self._store(t, step)
            self.pending, self.live = step.observation, step.live
            self.vector_steps += 1
        self._observe(rollout.n_steps, see=False)
        return rollout

    def _observe(self, t: int, see: bool) -> dict[str, Tensor]:
        """Normalise the pending observation into row t."""
        assert self.pending is not None, "start() comes before collect()"
        if self.normaliser is not None and see:
            self.normaliser.see(self.pending, self.live)
        seen = self.pending if self.normaliser is None else self.normaliser(self.pending)
        for name, array in seen.items():
            self._views[name][t] = array
        return {name: tensor[t].to(self._device) for name, tensor in self._rollout.observation.items()}

    def _act(self, t: int, observation: Mapping[str, Tensor]) -> Array:
        """Sample actions for row t and return them in the env's form."""
        rollout = self._rollout
        with torch.inference_mode():
            parameters = self._policy.action_parameters(observation)
            distribution = self._family.bind(parameters)
            action = distribution.sample(self._generator)
            rollout.action[t] = action
            rollout.parameters[t] = parameters
            rollout.log_prob[t] = distribution.log_prob(action)
            self._guard.check(rollout.log_prob[t].numpy(), "log-probability of the action", self.vector_steps)
            self._guard.check(rollout.action[t].numpy(), "action", self.vector_steps)
            return self._family.to_env(rollout.action[t])

    def _store(self, t: int, step: Step) -> None:
        self._guard.observations(step.observation, self.vector_steps)
        self._guard.check(step.reward, "reward", self.vector_steps)
        rollout = self._rollout
        rollout.reward[t] = torch.from_numpy(step.reward)
        rollout.terminated[t] = torch.from_numpy(step.terminated)
        rollout.truncated[t] = torch.from_numpy(step.truncated)
        rollout.valid[t] = torch.from_numpy(step.valid)
        costs = read_costs(step.infos, COST_KEY, self.vector_steps)
        for i, successor in step.final.items():
            if step.truncated[i] and not step.terminated[i]:
                self._guard.observations({n: a[None] for n, a in successor.items()}, self.vector_steps)
                rollout.final.append((t, i, self.normaliser(successor) if self.normaliser else successor))
        done = step.terminated | step.truncated
        successes = {i: bool(step.infos[i]["is_success"]) for i in step.final if "is_success" in step.infos[i]}
        rollout.cost[t] = 0.0 if costs is None else torch.tensor(costs)
        ended = self.episodes.step(step.reward, step.valid, done, costs, successes)
        rollout.ended.extend((t, episode) for episode in ended)
