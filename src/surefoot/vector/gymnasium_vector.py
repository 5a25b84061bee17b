"""Any `gymnasium.vector.VectorEnv`, in any of its three ways to reset itself."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from surefoot.errors import FOREIGN, EnvError, EnvStateError
from surefoot.spaces import Array, Layout, mismatch, real_numbers, row_of
from surefoot.vector.codes import code_bounds, unknown_code
from surefoot.vector.columns import declared_columns
from surefoot.vector.env_state import Resumable, capture_own, require_small, restore_own
from surefoot.vector.group import require_dict
from surefoot.vector.infos import NO_INFO, ColumnInfos, Flags, Infos, RowInfos
from surefoot.vector.interface import NO_SUCCESSORS, Envs, Step, Successors, env_seeds
from surefoot.vector.masks import MASK_KEY
from surefoot.vector.vector_masks import VectorActions

FINAL_KEYS = ("final_obs", "final_observation")
"""Where SAME_STEP envs put the last observation of an episode: Gymnasium 1.x, and its older name."""


class VectorEnvs(Envs):
    """Turns the steps of a vector env into true transitions."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self.env = env
        self.kind = f"a vector env {type(env.unwrapped).__name__}"
        self.n_envs = env.num_envs
        self.observation_space = env.single_observation_space
        self.action_space = env.single_action_space
        self.layout = Layout.of(self.observation_space)
        bounds = ((leaf, code_bounds(leaf)) for leaf in self.layout.leaves)
        self._codes = [(leaf, limits) for leaf, limits in bounds if limits is not None]
        self.mode = _autoreset_mode(env)
        self._actions = VectorActions(env, lambda: self.mask_form)
        self.action_heads = self._actions.heads
        self._steps = 0
        self._resetting = np.zeros(self.n_envs, np.bool_)

    def observation_columns(self) -> tuple[str, ...]:
        return declared_columns(self.env, self.layout)

    def reset(self, seed: int) -> Mapping[str, Array]:
        try:
            observation, info = self.env.reset(seed=self._seeds(seed))
            require_dict(info)
        except FOREIGN as error:
            raise EnvError(f"the vector env {self._name()} raised in reset: {type(error).__name__}: {error}") from error
        self._resetting = np.zeros(self.n_envs, np.bool_)
        self._read_masks(info)
        return self._checked(observation)

    def step(self, actions: Any) -> Step:
        try:
            observation, reward, terminated, truncated, info = self.env.step(actions)
            require_dict(info)
        except FOREIGN as error:
            raise EnvError(
                f"the vector env {self._name()} raised in step {self._steps}: {type(error).__name__}: {error}"
            ) from error
        self._steps += 1
        self._require_rows(reward=reward, terminated=terminated, truncated=truncated)
        valid = ~self._resetting
        terminated = np.asarray(terminated, np.bool_) & valid
        truncated = np.asarray(truncated, np.bool_) & valid
        done = terminated | truncated
        current = self._split(observation)
        some_ended = bool(done.any())
        final = self._final(np.flatnonzero(done), current, info) if some_ended else NO_SUCCESSORS
        reset_info = None
        if self.mode is AutoresetMode.DISABLED and some_ended:
            observation, reset_info = self._reset_some(done)
            current = self._split(observation)
        if self.mode is AutoresetMode.NEXT_STEP:
            self._resetting = done.copy()
        self._read_masks(info, reset_info, done)
        rewards = np.where(valid, np.asarray(reward, np.float64), 0.0)
        infos = self._infos(info, valid, done)
        return Step(current, rewards, terminated, truncated, valid, ~self._resetting, final, infos)

    @property
    def gives_masks(self) -> bool:
        return self._actions.gives_masks

    def action_masks(self) -> Array | None:
        return self._actions.masks()

    def state_dict(self) -> list[Any] | None:
        if not isinstance(self.env, Resumable):
            return None
        try:
            found = [self._steps, self._resetting.tolist(), capture_own(self.env), self._actions.saved()]
            require_small(found)
        except EnvStateError as error:
            raise EnvStateError(f"the vector env {self._name()}: {error}") from error
        return found

    def load_state_dict(self, state: list[Any]) -> None:
        steps, resetting, saved, masks = state
        if not isinstance(self.env, Resumable):
            raise EnvError(f"the vector env {self._name()} cannot load a state")
        if set(saved) == {"said"}:
            restore_own(self.env, saved)
        else:  # as older checkpoints have it: nothing is encoded
            self.env.load_state_dict(saved)
        self._steps, self._resetting = int(steps), np.array(resetting, np.bool_)
        self._actions.load(masks)

    def close(self) -> None:
        self.env.close()

    def _seeds(self, seed: int) -> Any:
        """One seed for each env where the vector env takes them, so that nearby root seeds share no env."""
        seeds = env_seeds(seed, self.n_envs)
        takes_many = isinstance(self.env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        return seeds if takes_many else seeds[0]

    def _final(self, envs: NDArray[np.int64], current: Mapping[str, Array], info: Mapping[str, Any]) -> Successors:
        """The last observations of the envs whose episodes ended."""
        if self.mode is not AutoresetMode.SAME_STEP:
            return Successors(envs, {name: array[envs] for name, array in current.items()})
        last = next((info[key] for key in FINAL_KEYS if key in info), None)
        if last is None:
            raise EnvError(
                f"the vector env {self._name()} says autoreset_mode SAME_STEP, but an episode ended in "
                f'step {self._steps} without info["final_obs"]; the successor of a truncated step cannot be known'
            )
        leaves = self._final_columns(last, envs)
        if leaves is not None:
            return Successors(envs, leaves)
        return Successors.stacked([(i, self._final_row(last, i)) for i in envs.tolist()])

    def _final_columns(self, last: Any, envs: NDArray[np.int64]) -> dict[str, Array] | None:
        """Final observations that come as batched ones do; None if they come otherwise, or something is wrong."""
        if isinstance(last, np.ndarray) and self.layout.leaves[0].path:  # one object for each env
            return None
        try:
            found = {leaf.name: leaf.find(last) for leaf in self.layout.leaves}
            if any(found[leaf.name].shape != (self.n_envs, *leaf.shape) for leaf in self.layout.leaves):
                return None
            found = {name: array[envs] for name, array in found.items()}
            if any(unknown_code(found[leaf.name], bounds) is not None for leaf, bounds in self._codes):
                return None
            return {leaf.name: leaf.as_raw(found[leaf.name]) for leaf in self.layout.leaves}
        except ValueError:
            return None

    def _final_row(self, last: Any, i: int) -> dict[str, Array]:
        try:
            row = row_of(last, i)
            parts = {} if row is None else self.layout.split(row)
            shapes = {leaf.name: leaf.shape for leaf in self.layout.leaves}
            fits = {name: array.shape for name, array in parts.items()} == shapes
            if fits:
                self._require_codes(row)
        except FOREIGN as reason:  # a foreign type may raise anything when it is asked for a row
            raise EnvError(
                f"the vector env {self._name()} in step {self._steps}: final observation of env {i}: {reason}"
            ) from None
        if not fits:
            raise EnvError(
                f"the vector env {self._name()} in step {self._steps}: an episode of env {i} ended, but "
                f'info["final_obs"] holds {row!r} for it, not an observation of the shape {shapes}'
            )
        return {name: array.copy() for name, array in parts.items()}

    def _reset_some(self, done: Flags) -> tuple[Any, dict[str, Any]]:
        try:
            observation, info = self.env.reset(options={"reset_mask": done.copy()})
            require_dict(info)
        except FOREIGN as error:
            raise EnvError(f"the vector env {self._name()} raised in reset: {type(error).__name__}: {error}") from error
        return observation, info

    def _require_rows(self, **fields: Any) -> None:
        for name, value in fields.items():
            try:
                shape = real_numbers(value).shape
                reason = None if shape == (self.n_envs,) else f"has shape {shape}, not ({self.n_envs},)"
            except ValueError as error:
                reason = str(error)
            if reason is not None:
                raise EnvError(f"the vector env {self._name()} in step {self._steps}: {name} {reason}")

    def _infos(self, info: Mapping[str, Any], valid: Flags, done: Flags) -> Infos:
        if not info:
            return self._no_infos
        last = info.get("final_info") if self.mode is AutoresetMode.SAME_STEP else None
        return ColumnInfos(info, valid, last, done)

    @cached_property
    def _no_infos(self) -> Infos:
        return RowInfos([NO_INFO] * self.n_envs)

    def _read_masks(
        self, info: Mapping[str, Any], reset_info: Mapping[str, Any] | None = None, done: Flags | None = None
    ) -> None:
        """Keep what is legal now: of envs that were ``done`` and reset apart it stands in ``reset_info``."""
        where = f"the vector env {self._name()} after step {self._steps}"
        if not self._actions.reads_infos:
            self._actions.ask(self._resetting, where)
        elif self._actions.gives_masks or MASK_KEY in info or MASK_KEY in (reset_info or ()):
            active = ~self._resetting
            if reset_info is None or done is None:
                self._actions.note(info, active, where)
            else:
                self._actions.note(info, active & ~done, where)
                self._actions.note(reset_info, done, where)

    def _split(self, observation: Any, where: str = "") -> dict[str, Array]:
        try:
            parts = self.layout.split(observation)
            for leaf in self.layout.leaves:
                found, expected = parts[leaf.name].shape, (self.n_envs, *leaf.shape)
                if found != expected:
                    raise ValueError(f"observation {leaf.name!r} has shape {found}, its space says {expected}")
            self._require_codes(observation)
        except ValueError as reason:
            raise EnvError(f"the vector env {self._name()} in {where or f'step {self._steps}'}: {reason}") from None
        return {name: array.copy() for name, array in parts.items()}

    def _require_codes(self, observation: Any) -> None:
        """ValueError if a category is none of those that the space has, of all envs or of one."""
        for leaf, bounds in self._codes:
            array = leaf.find(observation)
            if unknown_code(array, bounds) is None:
                continue
            rows = enumerate(array) if array.shape == (self.n_envs, *leaf.shape) else [(None, array)]
            env, reason = next((env, said) for env, row in rows if (said := unknown_code(row, bounds)) is not None)
            raise ValueError(f"observation {leaf.name!r}{'' if env is None else f' of env {env}'} {reason}")

    def _checked(self, observation: Any) -> dict[str, Array]:
        parts = self._split(observation, "reset")
        if mismatch(self._batched_space, observation) is None:
            return parts
        for i in range(self.n_envs):
            reason = mismatch(self.observation_space, row_of(observation, i))
            if reason is not None:
                raise EnvError(
                    f"env {i} of the vector env {self._name()} in reset: {reason}; correct the env or its space"
                )
        return parts

    @cached_property
    def _batched_space(self) -> spaces.Space[Any]:
        return batch_space(self.observation_space, self.n_envs)

    def _name(self) -> str:
        return self.env.spec.id if self.env.spec is not None else type(self.env.unwrapped).__name__


def _autoreset_mode(env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    mode = (env.metadata or {}).get("autoreset_mode")
    try:
        return AutoresetMode(mode)
    except ValueError:
        choices = ", ".join(f"AutoresetMode.{m.name}" for m in AutoresetMode)
        raise EnvError(
            f'metadata["autoreset_mode"] of the vector env {type(env.unwrapped).__name__} is {mode!r}; without it the '
            f"successor of a finished episode cannot be known. Set it to one of {choices}"
        ) from None
