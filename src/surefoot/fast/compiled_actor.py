"""The policy on a small batch by the kernel: one call for all networks of a step.

With eight envs the time of acting is that of calling operations, not that of computing. Same weights and same formulas
as `Policy.action_parameters` and `Policy.step`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from surefoot.fast.compiled_network import CompiledNetwork
from surefoot.fast.kernel import Actor, Kernel, Rows
from surefoot.nets.mlp import MLP
from surefoot.policy.encoder import Encoder, Flat
from surefoot.policy.memory import Memory
from surefoot.policy.policy import Policy
from surefoot.policy.recurrent import Recurrent
from surefoot.rollout.buffer import Rollout
from surefoot.spaces import CONTEXT_LEAF

Array = NDArray[Any]
MOST_PRODUCTS = 1 << 18
"""Multiplications of a layer. With more of them torch is as fast."""


def fits(policy: Policy, n_rows: int) -> bool:
    """Whether it is made of plain MLPs, with or without memory, on the CPU, and has little to compute."""
    memories = [memory for memory in (policy.memory, policy.value_memory) if memory is not None]
    encoders = [policy.encoder, policy.value_encoder] if memories else [policy.encoder]
    known = all(_is_plain(encoder) for encoder in encoders) and all(_is_one_cell(memory) for memory in memories)
    weights = [p for part in (*encoders, *memories, policy.output) for p in part.parameters() if p.dim() == 2]
    on_host = all(weight.device.type == "cpu" for weight in weights)
    return known and on_host and all(n_rows * weight.numel() <= MOST_PRODUCTS for weight in weights)


class CompiledActor:
    """Action parameters and memory states of one step of a rollout after the other, by compiled networks: the actor's,
    and the critic's as far as its memory needs it. Their weights are those of the moment it is made."""

    def __init__(self, policy: Policy, kernel: Kernel, rollout: Rollout) -> None:
        (only,) = (rows.numpy() for name, rows in rollout.observation.items() if name != CONTEXT_LEAF)
        memory, value_memory, parameters = policy.memory, policy.value_memory, rollout.parameters.numpy()
        assert isinstance(policy.encoder, Encoder)
        assert memory is None or isinstance(memory, Recurrent)
        self._kernel, self._converted = kernel, None
        self._seen: Array = only.reshape(*only.shape[:2], -1)
        self._networks = [CompiledNetwork(policy.encoder, memory, policy.output.linear)]
        skipped = [0]
        if isinstance(value_memory, Recurrent) and value_memory is not memory:
            assert isinstance(policy.value_encoder, Encoder)
            assert memory is not None
            self._networks.append(CompiledNetwork(policy.value_encoder, value_memory, None))
            skipped.append(memory.state_size)
        if policy.output.state_independent is not None:
            own = policy.output.state_independent.detach().numpy()
            parameters[:, :, policy.output.linear.out_features :] = own
        features = self._seen
        if features.dtype != np.float32:
            self._converted = features = features[:1].astype(np.float32)
        # Addresses are found once: asking an array for its own takes as long as a layer.
        x, state, out = (_rows(array) for array in (features, rollout.state.numpy(), parameters))
        if self._converted is not None:
            x.step = 0
        self._actors = (Actor * len(skipped))()
        for actor, compiled, before in zip(self._actors, self._networks, skipped, strict=True):
            actor.network = ctypes.pointer(compiled.network)
            actor.x, actor.out = x, out
            actor.state = Rows(state.data + 4 * before, state.step, state.stride)
        self._given = ctypes.addressof(self._actors), len(skipped), features.shape[1]

    def __call__(self, t: int) -> None:
        """Write the parameters of row t and, with memory, the states of row t + 1."""
        if self._converted is not None:
            self._converted[0] = self._seen[t]
        self._kernel.act(*self._given, t)


def _rows(array: Array) -> Rows:
    """Of float32 [T, N, n]."""
    step, stride = (n // 4 for n in array.strides[:2])
    return Rows(array.ctypes.data, step, stride)


def _is_plain(encoder: nn.Module) -> bool:
    """One leaf of numbers, then linear layers with tanh or ReLU."""
    if not isinstance(encoder, Encoder) or len(encoder.leaves) != 1 or not isinstance(encoder.leaves[0], Flat):
        return False
    return _is_simple(encoder.trunk)


def _is_simple(network: MLP) -> bool:
    return all(isinstance(layer, nn.Linear | nn.Tanh | nn.ReLU) for layer in network.layers)


def _is_one_cell(memory: Memory) -> bool:
    return isinstance(memory, Recurrent) and memory.cell.num_layers == 1 and _is_simple(memory.top)
