"""Acting on a rollout's rows with fewer and cheaper calls: by the kernel, by numpy, and by torch where neither fits."""

from __future__ import annotations

import torch

from surefoot.fast.cpu_actor import CpuActor
from surefoot.fast.host_sampling import host_sampler
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
        observation = {name: tensor.numpy() for name, tensor in rollout.observation.items()}
        self._parameters, self._action = rollout.parameters.numpy(), rollout.action.numpy()
        self._small = CpuActor.of(actor.policy, observation, rollout.state.numpy(), self._parameters)
        self._sampler = host_sampler(actor.family) if actor.device.type == "cpu" else None
        self._noise: Array | None = None
        self.kernel: Kernel | None = None
        """Compiled functions, once they are there."""

    def begin(self) -> None:
        if self._small is not None:
            self._small.refresh(self.kernel)
        if self._sampler is not None:
            self._noise = self._sampler.noise(self._rollout.n_steps, self._rollout.n_envs, self._generator)

    def forward(self, t: int) -> None:
        if self._small is None:
            self._plain.forward(t)
        else:
            self._small(t)

    def sample(self, t: int, mask: Array | None, step: int) -> None:
        if self._sampler is None or self._noise is None:
            self._plain.sample(t, mask, step)
        else:
            if mask is not None:
                require_legal(mask, self._actor.family, step)
            self._action[t] = self._sampler.sample(self._parameters[t], mask, self._noise[t])
