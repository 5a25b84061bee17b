"""What a vector env says about its actions: which are legal, and how their parts depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper

from surefoot.actions.heads import HeadSpec
from surefoot.actions.masks import MaskForm
from surefoot.errors import FOREIGN, EnvError
from surefoot.spaces import Array
from surefoot.vector.interface import Flags
from surefoot.vector.masks import HEADS_ATTRIBUTE, MASK_KEY, MASK_METHOD, MaskRows, declared_heads, mask_method

AnyVectorEnv = VectorEnv[Any, Any, Any]
Ask = Callable[[Flags], Mapping[int, Any]]
"""Which envs wait for a reset [N] -> the masks of (at least) the others, by env."""


class VectorActions:
    """The heads that a vector env declares, and the masks of its N envs as they stand.

    Masks come from the vector env's own method (one call for all), from the method of its single envs, or from infos.
    """

    def __init__(self, env: AnyVectorEnv, form: Callable[[], MaskForm]) -> None:
        self._form, self._n_envs = form, env.num_envs
        self._own = _attribute(env, MASK_METHOD)
        heads, self._each = _single(env)
        own_heads = _attribute(env, HEADS_ATTRIBUTE)
        self.heads: tuple[HeadSpec, ...] | None = heads if own_heads is None else tuple(own_heads)
        self._kept: MaskRows | None = None

    @property
    def gives_masks(self) -> bool:
        """Whether masks have been given."""
        return self._kept is not None and self._kept.any

    @property
    def reads_infos(self) -> bool:
        """Whether masks may come in infos: no method says them."""
        return self._own is None and self._each is None

    def masks(self) -> Array | None:
        """Masks of all envs [N, M], or None."""
        return None if self._kept is None else self._kept.all()

    def ask(self, resetting: Flags, where: str) -> None:
        """Call the method, for envs that do not wait for a reset."""
        whose = f"{MASK_METHOD}() of {where}"
        kept = self._rows()
        try:
            given = self._own() if self._own is not None else None
            by_env = self._each(resetting) if self._own is None and self._each is not None else {}
        except FOREIGN as error:
            raise EnvError(f"{whose} raised {type(error).__name__}: {error}") from error
        if self._own is not None:
            kept.write_rows(slice(None), kept.form.read(given, self._n_envs, whose))
        for i, mask in by_env.items():
            kept.note(i, mask, partial("{}() of env {} of {}".format, MASK_METHOD, i, where))
        kept.settle()

    def note(self, infos: Sequence[Mapping[str, Any]], resetting: Flags, where: str) -> None:
        """Keep the masks in the infos of all envs."""
        kept = self._rows()
        for i, info in enumerate(infos):
            if resetting[i]:
                continue
            if MASK_KEY in info:
                kept.note(i, info[MASK_KEY], partial("info[{!r}] of env {} of {}".format, MASK_KEY, i, where))
            elif kept.has(i):
                raise EnvError(f"env {i} of {where} gave info[{MASK_KEY!r}] before, but not now")
        kept.settle()

    def saved(self) -> list[list[int] | None] | None:
        """The masks as JSON."""
        return None if self._kept is None else [self._kept.saved(i) for i in range(self._n_envs)]

    def load(self, saved: list[list[int] | None] | None) -> None:
        """Restore the masks."""
        for i, row in enumerate(saved or ()):
            self._rows().load(i, row)

    def _rows(self) -> MaskRows:
        if self._kept is None:
            self._kept = MaskRows(self._form(), self._n_envs)
        return self._kept


def _single(env: AnyVectorEnv) -> tuple[tuple[HeadSpec, ...] | None, Ask | None]:
    """The heads that the single envs declare, and how to ask for their masks if they have the method."""
    inner = env.unwrapped
    if isinstance(inner, SyncVectorEnv):
        methods = [mask_method(single) for single in inner.envs]

        def ask_each(resetting: Flags) -> Mapping[int, Any]:
            return {i: method() for i, method in enumerate(methods) if method is not None and not resetting[i]}

        return declared_heads(inner.envs[0]), None if methods[0] is None else ask_each
    if isinstance(inner, AsyncVectorEnv):
        # An env in another process cannot be asked whether it has an attribute; one more can.
        probe: gymnasium.Env[Any, Any]
        with closing(inner.env_fns[0]()) as probe:
            heads, asks = declared_heads(probe), mask_method(probe) is not None

        def ask_all(resetting: Flags) -> Mapping[int, Any]:
            masks = inner.call(MASK_METHOD)
            return {i: masks[i] for i in np.flatnonzero(~resetting).tolist()}

        return heads, ask_all if asks else None
    return None, None


def _attribute(env: AnyVectorEnv, name: str) -> Any:
    """An attribute of a vector env or of one that it wraps, or None."""
    while True:
        found = getattr(env, name, None)
        if found is not None or not isinstance(env, VectorWrapper):
            return found
        env = env.env
