"""What a vector env says about its actions: which are legal, and how their parts depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from surefoot.actions.heads import HeadSpec
from surefoot.actions.masks import MaskForm
from surefoot.errors import FOREIGN, EnvError
from surefoot.spaces import Array
from surefoot.vector.infos import Flags, givers, info_row
from surefoot.vector.masks import HEADS_ATTRIBUTE, MASK_KEY, MASK_METHOD, MaskRows, declared_heads, mask_method
from surefoot.vector.plain import decode, encode

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

    def note(self, info: Mapping[str, Any], which: Flags, where: str) -> None:
        """Keep the masks in a vector env's info, of the envs ``which`` [N]."""
        envs = np.flatnonzero(which)
        if not envs.size or self._note_columns(info, envs):
            return
        kept = self._rows()
        keys = (MASK_KEY, f"_{MASK_KEY}")
        of_masks = {key: info[key] for key in keys if key in info}
        for i in envs.tolist():
            row = info_row(of_masks, i, self._n_envs)
            if MASK_KEY in row:
                kept.note(i, row[MASK_KEY], partial("info[{!r}] of env {} of {}".format, MASK_KEY, i, where))
            elif kept.has(i):
                raise EnvError(f"env {i} of {where} gave info[{MASK_KEY!r}] before, but not now")
        kept.settle()

    def _note_columns(self, info: Mapping[str, Any], envs: NDArray[np.int64]) -> bool:
        """Keep masks that come as arrays with a row for each env; False if they do not, or one is wrong."""
        given = info.get(MASK_KEY)
        by_head: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        names = [name for name in by_head if not (name.startswith("_") and name[1:] in by_head)]
        told = [givers(info, MASK_KEY, self._n_envs), *(givers(by_head, name, self._n_envs) for name in names)]
        if not all(flags is not None and flags[envs].all() for flags in told):
            return False
        parts = {name: by_head[name] for name in names} or {"": given}
        if not all(isinstance(part, np.ndarray) and part.shape[:1] == (self._n_envs,) for part in parts.values()):
            return False
        of_envs = {name: part[envs] for name, part in parts.items()}
        rows = of_envs if names else of_envs[""]
        kept = self._rows()
        try:
            read = kept.form.read(rows, len(envs), "")
        except Exception:  # wrong in any way: one by one it can be named
            return False
        kept.write_rows(envs, read)
        return True

    def saved(self) -> Any:
        """The masks as JSON."""
        return None if self._kept is None else encode(self._kept.stored(), "masks")

    def load(self, saved: Any) -> None:
        """Restore the masks."""
        if isinstance(saved, Mapping):
            self._rows().load_stored(decode(saved))
            return
        for i, row in enumerate(saved or ()):  # as older checkpoints have it
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
