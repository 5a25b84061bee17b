"""From observations to actions. Whoever acts (the collector, `predict`, `evaluate`) does it by one `Actor`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from surefoot.actions.distribution import Family
from surefoot.policy.policy import Policy
from surefoot.rollout.buffer import Rollout
from surefoot.spaces import CONTEXT_LEAF, Array
from surefoot.vector.episode_context import EpisodeContext
from surefoot.vector.interface import Envs
from surefoot.vector.masks import ObservedMasks, require_legal
from surefoot.vector.normalize import ObservationNormalizer


class Acted(NamedTuple):
    """What an actor did in N rows."""

    action: Any
    """[N, ...] in the env's form."""
    state: Array | None
    """[N, n] memory states after it; None without memory."""


class Actor:
    """Normalize, mask, reset the memory, network, sample, the env's form of the action: in this order, here alone."""

    def __init__(
        self,
        policy: Policy,
        family: Family,
        normalizer: ObservationNormalizer | None,
        observed_masks: ObservedMasks | None,
        device: torch.device,
        context: EpisodeContext | None = None,
    ) -> None:
        """``context``: how an episode stands, if the policy is shown it."""
        self.policy, self.family, self.normalizer, self.device = policy, family, normalizer, device
        self.context = context
        self._observed_masks = observed_masks

    def __call__(
        self,
        observation: Mapping[str, Array],
        state: Array | None,
        start: Array | None,
        masks: Array | None,
        generator: torch.Generator | None,
        deterministic: bool,
        step: int = 0,
        envs: Array | None = None,
        context: Array | None = None,
    ) -> Acted:
        """Act on raw observation leaves [N, ...]; ``start`` [N] marks rows that begin an episode (M02). ``step`` and
        ``envs`` [N] are how messages call the rows; ``context`` [N, C] is what a policy that is shown the return so far
        sees of it."""
        legal = self.masks(observation, masks)
        if legal is not None:
            require_legal(legal, self.family, step, envs)
        with torch.inference_mode():
            rows = {
                name: torch.as_tensor(np.ascontiguousarray(x), device=self.device)
                for name, x in self.seen(observation).items()
            }
            if self.context is not None:
                assert context is not None, "the policy is shown the return so far"
                rows[CONTEXT_LEAF] = torch.as_tensor(context, device=self.device)
            after = None
            if self.policy.state_size:
                n = next(iter(rows.values())).shape[0]
                before = torch.zeros(n, self.policy.state_size) if state is None else torch.as_tensor(state).clone()
                if start is not None:
                    before[torch.as_tensor(start)] = 0.0
                parameters, after = self.policy.step(rows, before.to(self.device))
            else:
                parameters = self.policy.action_parameters(rows)
            mask = None if legal is None else torch.as_tensor(legal, device=self.device)
            distribution = self.family.bind(parameters, mask)
            action = distribution.mode() if deterministic else distribution.sample(generator)
            return Acted(self.family.to_env(action.cpu().numpy()), None if after is None else after.cpu().numpy())

    def seen(self, observation: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the networks see of raw observation leaves."""
        return observation if self.normalizer is None else self.normalizer(observation)

    def masks(self, observation: Mapping[str, Array], given: Envs | Array | None) -> Array | None:
        """Legal actions [N, M]: those that stand in the observation, or else those of the envs or the caller."""
        if self._observed_masks is not None and not isinstance(given, np.ndarray):
            return self._observed_masks.read(observation)
        return given if given is None or isinstance(given, np.ndarray) else given.action_masks()


class RolloutActor(ABC):
    """Acts on the rows of a rollout, one step after the other, in its storage."""

    @abstractmethod
    def begin(self) -> None:
        """Before a rollout: the weights are others now, and masks may have come to it."""

    @abstractmethod
    def forward(self, t: int) -> None:
        """From observations and memory states of row t: write its action parameters, and the states of row t + 1."""

    @abstractmethod
    def sample(self, t: int, mask: Array | None, step: int) -> None:
        """Write the actions of row t; raise if a row has no legal one."""


class TorchActor(RolloutActor):
    """In plain torch."""

    def __init__(self, actor: Actor, rollout: Rollout, generator: torch.Generator) -> None:
        self._actor, self._rollout, self._generator = actor, rollout, generator

    def begin(self) -> None:
        pass

    def forward(self, t: int) -> None:
        rollout, policy, device = self._rollout, self._actor.policy, self._actor.device
        with torch.inference_mode():
            seen = {name: tensor[t].to(device) for name, tensor in rollout.observation.items()}
            if policy.state_size:
                parameters, after = policy.step(seen, rollout.state[t].to(device))
                rollout.state[t + 1] = after.cpu()
            else:
                parameters = policy.action_parameters(seen)
            rollout.parameters[t] = parameters.cpu()

    def sample(self, t: int, mask: Array | None, step: int) -> None:
        family, device = self._actor.family, self._actor.device
        if mask is not None:
            require_legal(mask, family, step)
        with torch.inference_mode():
            legal = None if mask is None else torch.from_numpy(mask).to(device)
            parameters = self._rollout.parameters[t].to(device)
            self._rollout.action[t] = family.bind(parameters, legal).sample(self._generator).cpu()
