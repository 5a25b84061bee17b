"""Single environments stepped one after the other in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from surefoot.errors import FOREIGN, EnvError, EnvRaisedError, EnvStateError
from surefoot.spaces import Array, Layout, mismatch, row_of
from surefoot.vector.codes import code_bounds, unknown_code
from surefoot.vector.columns import declared_columns
from surefoot.vector.env_state import capture, require_small, restore
from surefoot.vector.guard import as_number
from surefoot.vector.infos import RowInfos
from surefoot.vector.interface import Envs, Step, Successors, env_seeds
from surefoot.vector.masks import MASK_KEY, MASK_METHOD, MaskRows, declared_heads, mask_method

Env = gymnasium.Env[Any, Any]
RESETS_BEFORE_LOADING = 10
"""Attempts, each with another seed, at the reset that comes before a state is loaded."""


class EnvGroup(Envs):
    """A list of environments. A finished one is reset at once, so that every row is a transition."""

    def __init__(
        self,
        envs: Sequence[Env],
        first_index: int = 0,
        storage: Mapping[str, Array] | None = None,
        masks: MaskRows | None = None,
    ) -> None:
        self.envs = list(envs)
        self.n_envs = len(self.envs)
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        self.action_heads = declared_heads(self.envs[0])
        self.layout = Layout.of(self.observation_space)
        self._first_index = first_index
        self._steps = [0] * self.n_envs
        self._observation = self.layout.empty(self.n_envs, raw=True) if storage is None else storage
        self._masks = masks
        self._mask_methods = [mask_method(env) for env in self.envs]
        only = self.layout.leaves[0]
        plain = len(self.layout.leaves) == 1 and not only.path and code_bounds(only) is None
        self._plain = self._observation[only.name]
        """Where observations that are one array of numbers of this form go without ado."""
        self._plain_form = (self._plain.dtype, self._plain.shape[1:]) if plain else None
        self._plain_actions = not (isinstance(self.action_space, spaces.Box) and self.action_space.shape == ())
        """Whether going through an array of actions gives each env its own."""
        self._codes = {leaf.name: code_bounds(leaf) for leaf in self.layout.leaves}
        self._every_row = np.ones(self.n_envs, np.bool_)
        self._every_row.flags.writeable = False
        self._check_alike()

    def observation_columns(self) -> tuple[str, ...]:
        return declared_columns(self.envs[0], self.layout)

    def reset(self, seed: int) -> Mapping[str, Array]:
        return self.reset_each(env_seeds(seed, self._first_index + self.n_envs)[self._first_index :])

    def reset_each(self, seeds: Sequence[int | None]) -> Mapping[str, Array]:
        """Start env i with seed i."""
        for i, seed in enumerate(seeds):
            self.reset_one(i, seed)
        return self._copy()

    def reset_one(self, i: int, seed: int | None = None) -> Mapping[str, Array]:
        """Start a new episode in env i; all current observations."""
        self._read_mask(i, self._begin(i, seed))
        return self._observation

    def _begin(self, i: int, seed: int | None = None) -> Mapping[str, Any]:
        """Start a new episode in env i; its info. The observation is written, the mask is not read."""
        try:
            observation, info = self.envs[i].reset(seed=seed)
            require_dict(info)
        except FOREIGN as error:
            raise EnvRaisedError(f"{self._name(i)} raised in reset: {type(error).__name__}: {error}") from error
        if self._steps[i] == 0:
            reason = mismatch(self.observation_space, observation)
            if reason is not None:
                raise EnvError(f"{self._name(i)} in reset: {reason}; correct the env or its observation_space")
        self._write(i, observation)
        return info

    def step(self, actions: Any) -> Step:
        n = self.n_envs
        reward = np.zeros(n)
        terminated, truncated = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        final: list[tuple[int, Mapping[str, Array]]] = []
        infos: list[Mapping[str, Any]] = []
        plain = type(actions) is np.ndarray and self._plain_actions
        rows = actions if plain else [row_of(actions, i) for i in range(n)]
        asks = None not in self._mask_methods  # then masks are read together, once every env has made its step
        advance, begin = (self._advance, self._begin) if asks else (self.step_one, self.reset_one)
        for i, action in enumerate(rows):
            reward[i], ended, cut, info = advance(i, action)
            infos.append(info)
            if ended or cut:
                terminated[i], truncated[i] = ended, cut
                final.append((i, {name: array[i].copy() for name, array in self._observation.items()}))
                begin(i)
        if asks:
            self._ask_all()
        every, successors = self._every_row, Successors.stacked(final)
        return Step(self._copy(), reward, terminated, truncated, every, every, successors, RowInfos(infos))

    def step_one(self, i: int, action: Any) -> tuple[float, bool, bool, Mapping[str, Any]]:
        """Reward, terminated, truncated and info of a step in env i; its observation is written, no reset follows."""
        given = self._advance(i, action)
        _, terminated, truncated, info = given
        may_mask = self._masks is not None or self._mask_methods[i] is not None or MASK_KEY in info
        if may_mask and not (terminated or truncated):  # after the end there is nothing to choose
            self._read_mask(i, info)
        return given

    def _advance(self, i: int, action: Any) -> tuple[float, bool, bool, Mapping[str, Any]]:
        """`step_one` without reading the mask."""
        try:
            observation, reward, terminated, truncated, info = self.envs[i].step(action)
            terminated, truncated = bool(terminated), bool(truncated)
            if type(info) is not dict:
                require_dict(info)
        except FOREIGN as error:
            raise EnvRaisedError(
                f"{self._name(i)} raised in step {self._steps[i]} (action {action!r}): {type(error).__name__}: {error}"
            ) from error
        self._steps[i] += 1
        self._write(i, observation)
        number = float(reward) if isinstance(reward, float) else self._number(i, reward)
        return number, terminated, truncated, info

    def _number(self, i: int, reward: Any) -> float:
        try:
            return as_number(reward)
        except ValueError as reason:
            raise EnvError(f"{self._name(i)} in step {self._steps[i] - 1}: reward {reason}") from None

    @property
    def gives_masks(self) -> bool:
        return self._masks is not None and self._masks.any

    def action_masks(self) -> Array | None:
        return None if self._masks is None else self._masks.all()

    def replace(self, i: int, env: Env) -> None:
        """Put another env in the place of env i; it wants a reset."""
        self.envs[i] = env
        self._steps[i] = 0
        self._mask_methods[i] = mask_method(env)
        if self._masks is not None:
            self._masks.clear(i)
        self._check_alike()

    def state_dict(self) -> list[Any] | None:
        states = [self._capture(i) for i in range(self.n_envs)]
        if None in states:
            return None
        masks = [None if self._masks is None else self._masks.saved(i) for i in range(self.n_envs)]
        found = [list(parts) for parts in zip(self._steps, states, masks, strict=True)]
        require_small(found)
        return found

    def _capture(self, i: int) -> dict[str, Any] | None:
        try:
            return capture(self.envs[i])
        except EnvStateError as error:
            raise EnvStateError(f"{self._name(i)}: {error}") from error

    def load_state_dict(self, state: list[Any]) -> None:
        for i, (steps, saved, mask, *_) in enumerate(state):  # what workers add is of no use here
            self._make_ready(i)
            restore(self.envs[i], saved)
            self._steps[i] = int(steps)
            if mask is not None:
                self._mask_rows().load(i, mask)

    def _make_ready(self, i: int) -> None:
        """Reset env i, which creates what a restored state then overwrites; an env that raises may do so."""
        for seed in range(RESETS_BEFORE_LOADING):
            try:
                self.envs[i].reset(seed=seed)
                return
            except Exception as error:
                last = error
        raise EnvRaisedError(f"{self._name(i)} raised in reset: {type(last).__name__}: {last}") from last

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _write(self, i: int, observation: Any) -> None:
        if type(observation) is np.ndarray and (observation.dtype, observation.shape) == self._plain_form:
            self._plain[i] = observation
            return
        for leaf in self.layout.leaves:
            try:
                array = leaf.find(observation)
                bounds = self._codes[leaf.name]
                reason = None if bounds is None else unknown_code(array, bounds)
                if reason is None and array.shape == leaf.shape:
                    self._observation[leaf.name][i] = leaf.as_raw(array)
                    continue
                reason = reason or f"has shape {array.shape}, its space says {leaf.shape}"
            except ValueError as error:
                reason = str(error)
            raise EnvError(f"{self._name(i)} in step {self._steps[i]}: observation {leaf.name!r} {reason}")

    def _read_mask(self, i: int, info: Mapping[str, Any]) -> None:
        """Keep what env i says is legal, by its method or in its info."""
        method = self._mask_methods[i]
        if method is None and MASK_KEY not in info:
            if self._masks is not None and self._masks.has(i):
                raise EnvError(f"{self._name(i)} gave info[{MASK_KEY!r}] before, but not after step {self._steps[i]}")
            return
        try:
            given = info[MASK_KEY] if method is None else method()
        except FOREIGN as error:
            raise EnvRaisedError(f"{self._whose_mask(i)} raised {type(error).__name__}: {error}") from error
        self._mask_rows().note(i, given, partial(self._whose_mask, i))

    def _ask_all(self) -> None:
        """Keep what the methods of all envs say is legal."""
        given: list[Any] = []
        try:
            for method in self._mask_methods:
                given.append(method() if method is not None else None)
        except FOREIGN as error:
            whose = self._whose_mask(len(given))
            raise EnvRaisedError(f"{whose} raised {type(error).__name__}: {error}") from error
        self._mask_rows().take_all(given, self._whose_mask)

    def _whose_mask(self, i: int) -> str:
        """How an error calls the mask of env i."""
        source = f"info[{MASK_KEY!r}]" if self._mask_methods[i] is None else f"{MASK_METHOD}()"
        return f"{source} of {self._name(i)} after step {self._steps[i]}"

    def settle_masks(self) -> None:
        """Read the masks that the envs gave, so that another process sees them."""
        if self._masks is not None:
            self._masks.settle()

    def _mask_rows(self) -> MaskRows:
        if self._masks is None:
            self._masks = MaskRows(self.mask_form, self.n_envs)
        return self._masks

    def _copy(self) -> Mapping[str, Array]:
        return {name: array.copy() for name, array in self._observation.items()}

    def _name(self, i: int) -> str:
        env = self.envs[i]
        return f"env {self._first_index + i} ({env.spec.id if env.spec is not None else type(env.unwrapped).__name__})"

    def _check_alike(self) -> None:
        for i, env in enumerate(self.envs):
            if env.observation_space != self.observation_space or env.action_space != self.action_space:
                raise EnvError(
                    f"{self._name(i)} has other spaces than {self._name(0)}; all envs of a run must be alike"
                )


def require_dict(info: Any) -> None:
    """Raise TypeError if the info of an env is none."""
    if type(info) is not dict and not isinstance(info, Mapping):
        raise TypeError(f"the info that it returns is {info!r}, not a dict")
