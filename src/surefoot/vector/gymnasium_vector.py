"""Any `gymnasium.vector.VectorEnv`, in any of its three ways to reset itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from surefoot.errors import FOREIGN, EnvError, EnvStateError
from surefoot.spaces import Array, Layout, mismatch, real_numbers
from surefoot.vector.codes import code_bounds, unknown_code
from surefoot.vector.env_state import Resumable, capture_own, require_small, restore_own
from surefoot.vector.group import NO_INFO, require_dict
from surefoot.vector.interface import Envs, Flags, Step, env_seeds
from surefoot.vector.masks import MASK_KEY
from surefoot.vector.vector_masks import VectorActions

FINAL_KEYS = ("final_obs", "final_observation")
"""Where SAME_STEP envs put the last observation of an episode: Gymnasium 1.x, and its older name."""
NOT_INFO = frozenset(FINAL_KEYS) | {f"_{key}" for key in FINAL_KEYS}
"""What `Step.final` has already; as rows of infos it would cost a loop over all envs in each step that ends one."""


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

    def reset(self, seed: int) -> Mapping[str, Array]:
        try:
            observation, info = self.env.reset(seed=self._seeds(seed))
            require_dict(info)
        except FOREIGN as error:
            raise EnvError(f"the vector env {self._name()} raised in reset: {type(error).__name__}: {error}") from error
        self._resetting = np.zeros(self.n_envs, np.bool_)
        self._read_masks([info] * self.n_envs)
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
        final = self._final(done, current, info)
        mask_infos = [info] * self.n_envs
        if self.mode is AutoresetMode.DISABLED and done.any():
            observation, reset_info = self._reset_some(done)
            current = self._split(observation)
            mask_infos = [reset_info if done[i] else info for i in range(self.n_envs)]
        if self.mode is AutoresetMode.NEXT_STEP:
            self._resetting = done.copy()
        self._read_masks(mask_infos)
        rewards = np.where(valid, np.asarray(reward, np.float64), 0.0)
        infos = self._infos(info, valid, done)
        dropped = np.zeros(self.n_envs, np.bool_)
        return Step(current, rewards, terminated, truncated, valid, ~self._resetting, final, infos, dropped)

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

    def _final(
        self, done: Flags, current: Mapping[str, Array], info: Mapping[str, Any]
    ) -> dict[int, Mapping[str, Array]]:
        rows = np.flatnonzero(done)
        if self.mode is not AutoresetMode.SAME_STEP:
            return {int(i): {name: array[i].copy() for name, array in current.items()} for i in rows}
        if rows.size == 0:
            return {}
        last = next((info[key] for key in FINAL_KEYS if key in info), None)
        if last is None:
            raise EnvError(
                f"the vector env {self._name()} says autoreset_mode SAME_STEP, but an episode ended in "
                f'step {self._steps} without info["final_obs"]; the successor of a truncated step cannot be known'
            )
        return {int(i): self._final_row(last, int(i)) for i in rows}

    def _final_row(self, last: Any, i: int) -> dict[str, Array]:
        try:
            row = _row(last, i)
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

    def _infos(self, info: Mapping[str, Any], valid: Flags, done: Flags) -> list[Mapping[str, Any]]:
        if info.keys() <= NOT_INFO:
            return [NO_INFO] * self.n_envs
        info = {key: value for key, value in info.items() if key not in NOT_INFO}
        last = info.get("final_info")
        same = self.mode is AutoresetMode.SAME_STEP and last is not None
        return [
            _info_row(last if same and done[i] else info, i, self.n_envs) if valid[i] else NO_INFO
            for i in range(self.n_envs)
        ]

    def _read_masks(self, infos: Sequence[Mapping[str, Any]]) -> None:
        """Keep what is legal now; ``infos`` holds for each env the info of all that tells about it."""
        where = f"the vector env {self._name()} after step {self._steps}"
        if not self._actions.reads_infos:
            self._actions.ask(self._resetting, where)
        elif self._actions.gives_masks or MASK_KEY in infos[0]:
            keys = (MASK_KEY, f"_{MASK_KEY}")
            rows = [
                _info_row({key: info[key] for key in keys if key in info}, i, self.n_envs)
                for i, info in enumerate(infos)
            ]
            self._actions.note(rows, self._resetting, where)

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
        for i in range(self.n_envs):
            reason = mismatch(self.observation_space, _row(observation, i))
            if reason is not None:
                raise EnvError(
                    f"env {i} of the vector env {self._name()} in reset: {reason}; correct the env or its space"
                )
        return parts

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


def _row(batch: Any, i: int) -> Any:
    """Row i of a batched observation, or of an object array of single ones."""
    if isinstance(batch, Mapping):
        return {key: _row(value, i) for key, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(_row(value, i) for value in batch)
    return batch[i]


def _info_row(info: Any, i: int, n_envs: int) -> Mapping[str, Any]:
    """The info of env i out of a vector env's info, where ``_key`` tells who has ``key``."""
    if not isinstance(info, Mapping):  # an object array of single infos
        return info[i] or NO_INFO
    row: dict[str, Any] = {}
    for key, value in info.items():
        has = info.get(f"_{key}")
        if (key.startswith("_") and key[1:] in info) or (has is not None and not has[i]):
            continue
        if isinstance(value, Mapping):
            row[key] = _info_row(value, i, n_envs)
        else:
            row[key] = value[i] if np.ndim(value) > 0 and len(value) == n_envs else value
    return row
