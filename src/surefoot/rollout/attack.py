"""An actor whose observations an adversary changes, to find out what a policy is worth then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from surefoot.errors import ConfigError
from surefoot.math.adversary import Perturbation, ascent_on_both_sides, projected_ascent
from surefoot.policy.memory import SequenceBatch
from surefoot.rollout.actor import Acted, Actor
from surefoot.spaces import CONTEXT_LEAF, Array

Attack = Literal["random", "fgsm", "pgd", "critic"]
ATTACKS: tuple[Attack, ...] = get_args(Attack)
MAX_EPSILON = 1e9
"""Beyond any use, and far from where float32 overflows."""
N_STEPS = 10
"""Of the attacks that search."""


class AttackedActor:
    """Acts like another actor, on observations that are changed by at most ε in every attackable feature.

    - ``random``: each feature by ±ε;
    - ``fgsm``: one step of ε along the gradient of KL(π(s) ‖ π(ŝ)), from a random start;
    - ``pgd``: ten steps of ε/10 along it, from a random start and from the opposite one; of the two, the one that
      changes more of the action that the env receives;
    - ``critic``: ten steps towards what the critic values least.

    ε is in units of what the policy sees: standard deviations where observations are normalized.
    """

    def __init__(
        self, actor: Actor, attack: Attack, epsilon: float, attackable: Mapping[str, Tensor], seed: int = 0
    ) -> None:
        if attack not in ATTACKS:
            raise ConfigError(f"unknown attack {attack!r}; there are {', '.join(ATTACKS)}")
        if not 0.0 <= epsilon <= MAX_EPSILON:
            raise ConfigError(f"epsilon must be a number from 0 to {MAX_EPSILON:g}, got {epsilon}")
        self.actor, self.attack, self.epsilon = actor, attack, epsilon
        self.context = actor.context
        self._attackable = {name: x.to(actor.device) for name, x in attackable.items()}
        if actor.normalizer is not None:  # a feature that never varied has no std for ε to count
            for name, x in self._attackable.items():
                self._attackable[name] = x * torch.from_numpy(actor.normalizer.varies(name)).to(x)
            if not any(bool(x.any()) for x in self._attackable.values()):
                raise ConfigError("no feature has varied so far, so that none has a standard deviation: train first")
        self._generator = torch.Generator().manual_seed(seed)

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
        """As `Actor.__call__`."""
        changed = self._changed(observation, state, start, self.actor.masks(observation, masks), context)
        return self.actor(changed, state, start, masks, generator, deterministic, step, envs, context)

    def _changed(
        self,
        observation: Mapping[str, Array],
        state: Array | None,
        start: Array | None,
        legal: Array | None,
        context: Array | None,
    ) -> dict[str, Array]:
        """The raw observation as the adversary shows it."""
        actor = self.actor
        seen = {
            name: torch.as_tensor(np.ascontiguousarray(x), device=actor.device)
            for name, x in actor.seen(observation).items()
        }
        n = next(iter(seen.values())).shape[0]
        if context is not None:  # the policy is shown it, and it is not attacked
            seen[CONTEXT_LEAF] = torch.as_tensor(context, device=actor.device)
        elif n_context := actor.policy.n_context:  # only a critic that no attack asks looks at it
            seen[CONTEXT_LEAF] = torch.zeros(n, n_context, device=actor.device)
        found = self._perturbation(seen, _state(actor, state, start, n), legal, n)
        changed = dict(observation)
        for name, x in found.items():
            # From units of the policy to those of the env.
            scale = 1.0 if actor.normalizer is None else actor.normalizer.std(name)
            changed[name] = (observation[name] + x.cpu().numpy() * scale).astype(observation[name].dtype)
        return changed

    def _perturbation(self, seen: Mapping[str, Tensor], state: Tensor, legal: Array | None, n: int) -> Perturbation:
        policy, family = self.actor.policy, self.actor.family
        uniform = {
            name: (2.0 * torch.rand(n, *x.shape, generator=self._generator) - 1.0).to(x.device)
            for name, x in self._attackable.items()
        }
        if self.attack == "random":
            return {name: self.epsilon * torch.sign(x) * self._attackable[name] for name, x in uniform.items()}
        mask = None if legal is None else torch.as_tensor(legal, device=state.device)

        def shown(perturbation: Perturbation) -> dict[str, Tensor]:
            return dict(seen) | {name: seen[name] + x for name, x in perturbation.items()}

        with torch.no_grad():
            parameters = policy.step(seen, state).parameters
            clean = family.bind(parameters, mask)

        def divergence(perturbation: Perturbation) -> Tensor:
            return clean.kl(family.bind(policy.step(shown(perturbation), state).parameters, mask))

        def badness(perturbation: Perturbation) -> Tensor:
            rows = shown(perturbation)
            sequences = SequenceBatch.single(state) if policy.state_size else None
            return -policy.critic.mean(policy.prediction(rows, sequences))

        if self.attack == "fgsm":
            return projected_ascent(divergence, uniform, self.epsilon, 1, self._attackable).perturbation
        if self.attack == "critic":
            return projected_ascent(badness, uniform, self.epsilon, N_STEPS, self._attackable).perturbation
        played = family.bind(family.received(parameters), mask)

        def effect(perturbation: Perturbation) -> Tensor:
            changed = policy.step(shown(perturbation), state).parameters
            return played.kl(family.bind(family.received(changed), mask))

        # One side at random would do little: the pushes of an episode cancel out, and half of them may be to where
        # actions are clipped.
        return ascent_on_both_sides(
            divergence, uniform, self.epsilon, N_STEPS, self._attackable, judge=effect
        ).perturbation


def _state(actor: Actor, state: Array | None, start: Array | None, n: int) -> Tensor:
    """Memory states as the actor will use them."""
    size = actor.policy.state_size
    before = torch.zeros(n, size) if state is None else torch.as_tensor(state).clone()
    if start is not None and size:
        before[torch.as_tensor(start)] = 0.0
    return before.to(actor.device)
