"""The environments of one worker, and what is done when one of them raises."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from surefoot.errors import FOREIGN, EnvError, EnvRaisedError, EnvStateError
from surefoot.spaces import row_of
from surefoot.vector.group import Env, EnvGroup
from surefoot.vector.interface import env_seeds
from surefoot.workers.channel import pack
from surefoot.workers.shared_buffer import SharedBuffer

MAX_FRUITLESS_RESTARTS = 10
"""How often in a row an env is made anew without one good step."""
GLOBAL_STREAM, RESTART_STREAM = 0x610BA1, 0x2E57A27


class WorkerLoop:
    """The environments of one worker: a group in which an env that raises is made anew."""

    def __init__(self, group: EnvGroup, factory: Callable[[], Env], first_index: int, buffer: SharedBuffer) -> None:
        self._group, self._factory, self._first_index, self._buffer = group, factory, first_index, buffer
        self._seed = 0
        self._restarts = [0] * group.n_envs
        self._fruitless = [0] * group.n_envs
        self._first_errors: dict[int, EnvError] = {}
        self._faults: list[tuple[int, str]] = []

    def reset(self, payload: bytes) -> bytes:
        """Start every env as the group alone would."""
        self._seed, self._restarts = json.loads(payload)
        self._seed_global_streams()
        seeds = env_seeds(self._seed, self._first_index + self._group.n_envs)[self._first_index :]
        for i, seed in enumerate(seeds):
            self._reset_one(i, seed)
        return self._report({})

    def revive(self, payload: bytes) -> bytes:
        """Start every env in the place of a lost one."""
        self._seed, self._restarts = json.loads(payload)
        self._seed_global_streams()
        for i in range(self._group.n_envs):
            self._reset_one(i, self._restart_seed(i))
        return self._report({})

    def step(self, payload: bytes) -> bytes:
        """Take the actions on the buffer."""
        del payload
        buffer, group = self._buffer, self._group
        actions = buffer.actions(group.action_space)  # copies: an env may keep what it was given
        infos: dict[int, Mapping[str, Any]] = {}
        for i in range(group.n_envs):
            try:
                reward, terminated, truncated, info = group.step_one(i, row_of(actions, i))
            except EnvRaisedError as error:
                self._restart(i, error)
                self._post(i, 0.0, terminated=False, truncated=False, dropped=True)
                continue
            self._post(i, reward, terminated, truncated, dropped=False)
            if self._fruitless[i]:
                self._fruitless[i] = 0
                self._first_errors.pop(i, None)
            if info:
                infos[self._first_index + i] = info
            if terminated or truncated:
                for name, final in buffer.final.items():
                    final[i] = buffer.observation[name][i]
                self._reset_one(i, None)
        return self._report(infos)

    def state(self, payload: bytes) -> bytes:
        """The group's state with the fruitless restarts of each env; or, as text, why it cannot be kept."""
        del payload
        try:
            state = self._group.state_dict()
        except EnvStateError as error:
            return json.dumps(str(error)).encode()
        if state is not None:
            state = [[*entry, fruitless] for entry, fruitless in zip(state, self._fruitless, strict=True)]
        return json.dumps(state).encode()

    def load(self, payload: bytes) -> bytes:
        """Put the group into a state."""
        self._seed, self._restarts, state = json.loads(payload)
        self._seed_global_streams()
        self._group.load_state_dict(state)
        self._fruitless = [entry[3] for entry in state]
        self._first_errors.clear()
        return b""

    def close(self, payload: bytes) -> bytes:
        """Release what the envs hold."""
        del payload
        self._group.close()
        return b""

    def _post(self, i: int, reward: float, terminated: bool, truncated: bool, dropped: bool) -> None:
        buffer = self._buffer
        buffer.reward[i], buffer.dropped[i] = reward, dropped
        buffer.terminated[i], buffer.truncated[i] = terminated, truncated

    def _reset_one(self, i: int, seed: int | None) -> None:
        try:
            self._group.reset_one(i, seed)
        except EnvRaisedError as error:
            self._restart(i, error)

    def _restart(self, i: int, error: EnvError) -> None:
        """Make env i anew until it could be reset, or it is clear that this does not help."""
        first_error = self._first_errors.setdefault(i, error)
        while self._fruitless[i] < MAX_FRUITLESS_RESTARTS:
            self._fruitless[i] += 1
            self._restarts[i] += 1
            self._faults.append((self._first_index + i, str(error)))
            with suppress(*FOREIGN):
                self._group.envs[i].close()
            try:
                self._group.replace(i, make_one(self._factory, self._first_index + i))
                self._group.reset_one(i, self._restart_seed(i))
                return
            except EnvRaisedError as again:
                error = again
        raise EnvError(
            f"{first_error}; made anew {MAX_FRUITLESS_RESTARTS} times in a row, it did not make one good step. "
            f"The last error was: {error}"
        ) from error

    def _restart_seed(self, i: int) -> int:
        entropy = [self._seed, RESTART_STREAM, self._first_index + i, self._restarts[i]]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] & 0x7FFFFFFF)

    def _seed_global_streams(self) -> None:
        """Workers are forked from one process; envs that draw from the global streams would draw the same numbers."""
        entropy = [self._seed, GLOBAL_STREAM, self._first_index, sum(self._restarts)]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  # for envs that use it; Surefoot does not

    def _report(self, infos: dict[int, Mapping[str, Any]]) -> bytes:
        """Infos and faults since the last report; nothing at all in the usual case of neither."""
        self._group.settle_masks()
        if not infos and not self._faults:
            return b""
        faults, self._faults = self._faults, []
        try:
            return pack((infos, faults))
        except Exception as error:
            raise EnvError(
                f"an info of the envs {', '.join(map(str, infos))} cannot be sent from a worker process "
                f"({type(error).__name__}: {error}); put plain values and arrays there, or set workers = 0"
            ) from error


def make_one(factory: Callable[[], Env], index: int) -> Env:
    """An env of the factory's."""
    try:
        return factory()
    except FOREIGN as error:
        raise EnvRaisedError(f"env {index} could not be made: {type(error).__name__}: {error}") from error
