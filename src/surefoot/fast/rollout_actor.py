"""Acting on a rollout's rows with fewer and cheaper calls: networks by the kernel, actions drawn by it or in numpy."""

from __future__ import annotations

import torch

from surefoot.fast.compiled_actor import CompiledActor, fits
from surefoot.fast.compiled_choice import CompiledChoice
from surefoot.fast.host_sampling import ChoiceSampler, host_sampler
from surefoot.fast.kernel import Kernel
from surefoot.rollout.actor import Actor, RolloutActor, TorchActor
from surefoot.rollout.buffer import Rollout
from surefoot.spaces import Array
from surefoot.vector.masks import require_legal


class FastActor(RolloutActor):
    """The same distribution as `TorchActor`; a rollout's noise is drawn at once."""

    def __init__(self, actor: Actor, rollout: Rollout, generator: torch.Generator) -> None:
        self._actor, self._rollout, self._generator = actor, rollout, generator
        self._plain = TorchActor(actor, rollout, generator)
        self._parameters, self._action = rollout.parameters.numpy(), rollout.action.numpy()
        self._compiled: CompiledActor | None = None
        self._sampler = host_sampler(actor.family) if actor.device.type == "cpu" else None
        self._noise: Array | None = None
        self._choice: CompiledChoice | None = None
        self.kernel: Kernel | None = None
        """Compiled functions, once they are there."""

    def begin(self) -> None:
        policy, rollout = self._actor.policy, self._rollout
        if self.kernel is not None and fits(policy, rollout.n_envs):
            self._compiled = CompiledActor(policy, self.kernel, rollout)
        if self._sampler is not None:
            self._noise = self._sampler.noise(rollout.n_steps, rollout.n_envs, self._generator)
        self._choice = None
        if self.kernel is not None and self._noise is not None and isinstance(self._sampler, ChoiceSampler):
            mask = None if rollout.mask is None else rollout.mask.numpy()
            self._choice = self._sampler.compiled(self.kernel, self._parameters, mask, self._noise, self._action)

    def forward(self, t: int) -> None:
        if self._compiled is None:
            self._plain.forward(t)
        else:
            self._compiled(t)

    def sample(self, t: int, mask: Array | None, step: int) -> None:
        if self._choice is not None:
            if not self._choice(t) and mask is not None:
                require_legal(mask, self._actor.family, step)
        elif self._sampler is None or self._noise is None:
            self._plain.sample(t, mask, step)
        else:
            if mask is not None:
                require_legal(mask, self._actor.family, step)
            self._action[t] = self._sampler.sample(self._parameters[t], mask, self._noise[t])
