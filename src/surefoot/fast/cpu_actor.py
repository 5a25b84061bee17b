"""The policy on a small batch, by the kernel if there is one, else in numpy.

With eight envs the time of acting is that of calling operations, not that of computing, and numpy's calls cost a
fraction of torch's. Same weights and same formulas as `Policy.action_parameters` and `Policy.step`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from surefoot.fast.compiled_network import CompiledNetwork
from surefoot.fast.kernel import Actor, Kernel, Rows
from surefoot.nets.mlp import MLP
from surefoot.policy.encoder import Encoder, Flat
from surefoot.policy.memory import Memory
from surefoot.policy.policy import Policy
from surefoot.policy.recurrent import Recurrent
from surefoot.spaces import CONTEXT_LEAF

Array = NDArray[Any]
MOST_PRODUCTS = 1 << 18
"""Multiplications of a layer. With more of them torch is as fast, and numpy's BLAS would start threads of its own."""


class Storage(NamedTuple):
    """Where a rollout's rows lie, all of float32 but perhaps the observations: step t reads row t and writes the states
    of row t + 1."""

    observation: Array
    """[T + 1, N, ...]"""
    state: Array
    """[T + 1, N, n]"""
    parameters: Array
    """[T, N, P]"""

    def features(self, t: int) -> Array:
        """Observations [N, F] of float32."""
        rows = self.observation[t]
        flat: Array = rows.reshape(len(rows), -1).astype(np.float32, copy=False)
        return flat


class CpuActor:
    """Action parameters and memory states of one step after the other, for plain MLPs with or without memory on the
    CPU."""

    def __init__(self, policy: Policy, storage: Storage) -> None:
        self._policy, self._storage = policy, storage
        self.refresh(None)

    @classmethod
    def of(cls, policy: Policy, observation: Mapping[str, Array], state: Array, parameters: Array) -> CpuActor | None:
        """None if the policy is of another kind, or has too much to compute."""
        n_rows = parameters.shape[1]
        memories = [memory for memory in (policy.memory, policy.value_memory) if memory is not None]
        encoders = [policy.encoder, policy.value_encoder] if memories else [policy.encoder]
        known = policy.autocast is None and all(_is_plain(encoder) for encoder in encoders)
        known = known and all(_is_one_cell(memory) for memory in memories)
        weights = [p for part in (*encoders, *memories, policy.output) for p in part.parameters() if p.dim() == 2]
        on_host = all(weight.device.type == "cpu" for weight in weights)
        small = all(n_rows * weight.numel() <= MOST_PRODUCTS for weight in weights)
        if not (known and on_host and small):
            return None
        (only,) = (rows for name, rows in observation.items() if name != CONTEXT_LEAF)
        return cls(policy, Storage(only, state, parameters))

    def refresh(self, kernel: Kernel | None) -> None:
        """Look at the weights as they are now, and use the kernel if there is one."""
        policy = self._policy
        self._compiled = None if kernel is None else _Compiled(policy, kernel, self._storage)
        if self._compiled is not None:
            return
        self._trunk, self._output = _layers(_trunk(policy.encoder)), _Linear(policy.output.linear)
        self._state_independent = (
            None if policy.output.state_independent is None else _view(policy.output.state_independent)
        )
        self._cell = self._value_cell = None
        if isinstance(policy.memory, Recurrent):
            self._cell, self._top = _Cell(policy.memory), _layers(policy.memory.top)
            if policy.value_memory is not policy.memory and isinstance(policy.value_memory, Recurrent):
                self._value_cell = _Cell(policy.value_memory)
                self._value_trunk = None if policy.shared else _layers(_trunk(policy.value_encoder))

    def __call__(self, t: int) -> None:
        """Write the parameters of row t and, with memory, the states of row t + 1."""
        if self._compiled is not None:
            return self._compiled(t)
        x = self._storage.features(t)
        features = _through(self._trunk, x)
        if self._cell is not None:
            value_features = features
            if self._value_cell is not None and self._value_trunk is not None:
                value_features = _through(self._value_trunk, x)
            own, state, after = self._cell.state_size, self._storage.state[t], self._storage.state[t + 1]
            features = _through(self._top, self._cell.step(features, state[:, :own], after[:, :own]))
            if self._value_cell is not None:
                self._value_cell.advance(value_features, state[:, own:], after[:, own:])
        x, out = self._output(features), self._storage.parameters[t]
        out[:, : x.shape[1]] = x
        if self._state_independent is not None:
            out[:, x.shape[1] :] = self._state_independent
        return None


class _Compiled:
    """The same by compiled networks: the actor's, and the critic's as far as its memory needs it."""

    def __init__(self, policy: Policy, kernel: Kernel, storage: Storage) -> None:
        memory, value_memory = policy.memory, policy.value_memory
        assert isinstance(policy.encoder, Encoder)
        assert memory is None or isinstance(memory, Recurrent)
        self._kernel, self._storage, self._converted = kernel, storage, None
        self._networks = [CompiledNetwork(policy.encoder, memory, policy.output.linear)]
        skipped = [0]
        if isinstance(value_memory, Recurrent) and value_memory is not memory:
            assert isinstance(policy.value_encoder, Encoder)
            assert memory is not None
            self._networks.append(CompiledNetwork(policy.value_encoder, value_memory, None))
            skipped.append(memory.state_size)
        if policy.output.state_independent is not None:
            storage.parameters[:, :, policy.output.linear.out_features :] = _view(policy.output.state_independent)
        features = storage.features(0)
        seen = storage.observation.reshape(len(storage.observation), len(features), -1)
        if seen.dtype != np.float32:
            self._converted = seen = features[None]
        # Addresses are found once: asking an array for its own takes as long as a layer.
        x, state, out = (_rows(array) for array in (seen, storage.state, storage.parameters))
        if self._converted is not None:
            x.step = 0
        self._actors = (Actor * len(skipped))()
        for actor, compiled, before in zip(self._actors, self._networks, skipped, strict=True):
            actor.network = ctypes.pointer(compiled.network)
            actor.x, actor.out = x, out
            actor.state = Rows(state.data + 4 * before, state.step, state.stride)
        self._given = ctypes.addressof(self._actors), len(skipped), len(features)

    def __call__(self, t: int) -> None:
        if self._converted is not None:
            self._converted[0] = self._storage.features(t)
        self._kernel.act(*self._given, t)


def _rows(array: Array) -> Rows:
    """Of float32 [T, N, n]."""
    step, stride = (n // 4 for n in array.strides[:2])
    return Rows(array.ctypes.data, step, stride)


class _Linear:
    def __init__(self, layer: nn.Linear) -> None:
        self._weight, self._bias = _view(layer.weight).T, _view(layer.bias)

    def __call__(self, x: Array) -> Array:
        out: Array = x @ self._weight
        out += self._bias
        return out


class _Cell:
    """One layer of LSTM or GRU, one step, and the LayerNorm after it."""

    def __init__(self, memory: Recurrent) -> None:
        cell = memory.cell
        self._is_lstm, self._width, self.state_size = isinstance(cell, nn.LSTM), cell.hidden_size, memory.state_size
        self._into, self._within = _view(cell.weight_ih_l0).T, _view(cell.weight_hh_l0).T
        self._bias_into, self._bias_within = _view(cell.bias_ih_l0), _view(cell.bias_hh_l0)
        self._bias = self._bias_into + self._bias_within
        self._scale, self._shift, self._eps = _view(memory.norm.weight), _view(memory.norm.bias), memory.norm.eps

    def step(self, x: Array, state: Array, after: Array) -> Array:
        """Write the new state; the normalized output."""
        self.advance(x, state, after)
        hidden = after[:, : self._width]
        centred = hidden - hidden.mean(1, keepdims=True)
        std = np.sqrt(np.square(centred).mean(1, keepdims=True) + self._eps)
        normed: Array = centred / std * self._scale + self._shift
        return normed

    def advance(self, x: Array, state: Array, after: Array) -> None:
        """Write the new state [N, n]."""
        if self._is_lstm:
            self._advance_lstm(x, state, after)
        else:
            self._advance_gru(x, state, after)

    def _advance_lstm(self, x: Array, state: Array, after: Array) -> None:
        n = self._width
        z = x @ self._into
        z += state[:, :n] @ self._within
        z += self._bias
        new = np.tanh(z[:, 2 * n : 3 * n])
        gate = _sigmoid(z)
        carry = after[:, n:]
        np.multiply(gate[:, n : 2 * n], state[:, n:], out=carry)
        carry += gate[:, :n] * new
        np.multiply(gate[:, 3 * n :], np.tanh(carry), out=after[:, :n])

    def _advance_gru(self, x: Array, state: Array, after: Array) -> None:
        n = self._width
        given, kept = x @ self._into + self._bias_into, state @ self._within + self._bias_within
        gate = _sigmoid(given[:, : 2 * n] + kept[:, : 2 * n])
        new = np.tanh(given[:, 2 * n :] + gate[:, :n] * kept[:, 2 * n :])
        np.add(new, gate[:, n:] * (state - new), out=after)


def _sigmoid(x: Array) -> Array:
    """1/(1 + exp(−x)) as (1 + tanh(x/2))/2, which cannot overflow."""
    out: Array = np.tanh(x * np.float32(0.5))
    out += np.float32(1.0)
    out *= np.float32(0.5)
    return out


def _is_plain(encoder: nn.Module) -> bool:
    """One leaf of numbers, then linear layers with tanh or ReLU."""
    if not isinstance(encoder, Encoder) or len(encoder.leaves) != 1 or not isinstance(encoder.leaves[0], Flat):
        return False
    return _is_simple(encoder.trunk)


def _is_simple(network: MLP) -> bool:
    return all(isinstance(layer, nn.Linear | nn.Tanh | nn.ReLU) for layer in network.layers)


def _is_one_cell(memory: Memory) -> bool:
    return isinstance(memory, Recurrent) and memory.cell.num_layers == 1 and _is_simple(memory.top)


def _trunk(encoder: nn.Module) -> MLP:
    assert isinstance(encoder, Encoder)
    return encoder.trunk


def _layers(network: MLP) -> list[_Linear | nn.Module]:
    return [_Linear(layer) if isinstance(layer, nn.Linear) else layer for layer in network.layers]


def _through(layers: Sequence[_Linear | nn.Module], x: Array) -> Array:
    for layer in layers:
        if isinstance(layer, _Linear):
            x = layer(x)
        elif isinstance(layer, nn.Tanh):
            np.tanh(x, out=x)
        else:
            np.maximum(x, 0.0, out=x)
    return x


def _view(parameter: Any) -> Array:
    assert isinstance(parameter, Tensor)
    return parameter.detach().numpy()
