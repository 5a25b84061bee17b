"""The contract of an environment with factored actions: what does not matter changes nothing (F07)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from surefoot.actions.heads import Head, HeadSpec, assemble, choices_first, heads_of, parts_of
from surefoot.actions.masks import MaskForm
from surefoot.errors import EnvError

Env = gymnasium.Env[Any, Any]


def check_dead_heads(
    make: Callable[[], Env], heads: Sequence[HeadSpec] | None = None, n_steps: int = 1000, seed: int = 0
) -> int:
    """Play two envs from one seed with random legal actions that differ in inactive heads only, and raise `EnvError`
    at the first difference in reward, successor or end.

    Heads are those that the env declares, unless given; masks those of its ``action_masks``. Answers in how many steps
    some head was inactive; 0 has shown nothing.
    """
    one, other = make(), make()
    declared = heads if heads is not None else one.get_wrapper_attr("action_heads")
    player = _Player(one, choices_first(heads_of(one.action_space, declared)), seed)
    seen, differed = (one.reset(seed=seed)[0], other.reset(seed=seed)[0]), 0
    for step in range(n_steps):
        if not same(*seen):
            raise EnvError(f"two envs from one seed show different things before step {step}; the env must be seeded")
        action, twin, dead = player.draw()
        differed += bool(dead)
        results = one.step(action), other.step(twin)
        for what, a, b in zip(("successor", "reward", "terminated", "truncated"), *results, strict=False):
            if not same(a, b):
                raise EnvError(
                    f"step {step}: the {what} depends on an inactive head ({', '.join(dead)}): it is {a!r} after the "
                    f"action {action!r} and {b!r} after {twin!r}"
                )
        ended = results[0][2] or results[0][3]
        seen = (one.reset()[0], other.reset()[0]) if ended else (results[0][0], results[1][0])
    one.close()
    other.close()
    return differed


class _Player:
    """Draws random legal actions, and twins that differ in inactive heads."""

    def __init__(self, env: Env, heads: tuple[Head, ...], seed: int) -> None:
        self._env, self._heads, self._form = env, heads, MaskForm.of_heads(heads)
        self._masks = env.get_wrapper_attr("action_masks") if env.has_wrapper_attr("action_masks") else None
        self._rng = np.random.default_rng(seed)
        env.action_space.seed(seed)

    def draw(self) -> tuple[Any, Any, list[str]]:
        """An action, its twin, and the names of the heads in which they may differ."""
        heads, space = self._heads, self._env.action_space
        choices = self._choices()
        dead = [h for h in range(len(heads)) if not self._is_active(h, choices)]
        others = {h: int(self._rng.integers(heads[h].size or 1)) for h in dead if heads[h].size is not None}
        sample, another = space.sample(), space.sample()
        kept = {heads[h].path for h in range(len(heads)) if h not in dead}
        action = self._action(choices, lambda _: sample)
        twin = self._action(choices | others, lambda path: sample if path in kept else another)
        return action, twin, [heads[h].name for h in dead]

    def _choices(self) -> dict[int, int]:
        row = None
        if self._masks is not None:
            given = self._masks()
            batched = (
                {k: np.asarray(v)[None] for k, v in given.items()}
                if isinstance(given, Mapping)
                else np.asarray(given)[None]
            )
            row = self._form.read(batched, 1, "action_masks()")[0]
        found: dict[int, int] = {}
        while len(found) < len(self._form.sizes):
            for h, size in enumerate(self._form.sizes):
                parent = self._heads[h].mask_parent
                if h not in found and (parent is None or parent in found):
                    parent_action = 0 if parent is None else found[parent]
                    legal = (
                        np.arange(size)
                        if row is None
                        else np.flatnonzero(legal_flags(self._form, row, h, parent_action))
                    )
                    found[h] = int(self._rng.choice(legal)) if len(legal) else 0
        return found

    def _is_active(self, h: int, choices: Mapping[int, int]) -> bool:
        return all(choices[c] in values and self._is_active(c, choices) for c, values in self._heads[h].conditions)

    def _action(self, choices: Mapping[int, int], source: Callable[[Any], Any]) -> Any:
        parts: dict[Any, Any] = {}
        for path, leaf in parts_of(self._env.action_space):
            own = sorted((head.position, h) for h, head in enumerate(self._heads) if head.path == path)
            if isinstance(leaf, spaces.Discrete):
                parts[path] = np.int64(leaf.start + choices[own[0][1]])
            elif isinstance(leaf, spaces.MultiDiscrete):
                indices = np.array([choices[h] for _, h in own]).reshape(leaf.shape)
                parts[path] = (leaf.start + indices).astype(leaf.dtype)
            else:
                part = source(path)
                for key in path:
                    part = part[key]
                parts[path] = part
        return assemble(self._env.action_space, parts)


def same(a: Any, b: Any) -> bool:
    """Whether two (nested) values are equal, bit for bit."""
    if isinstance(a, Mapping):
        return set(a) == set(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    first, second = np.asarray(a), np.asarray(b)
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind in "fc"))


def legal_flags(form: MaskForm, row: np.ndarray[Any, Any], h: int, parent_action: int = 0) -> np.ndarray[Any, Any]:
    """The flags of head ``h`` in one mask, flat or conditional, after ``parent_action``."""
    conditional = len(row) != form.flat_width
    counts = form.n_parent_actions if conditional else (1,) * len(form.sizes)
    first = sum(size * count for size, count in zip(form.sizes[:h], counts[:h], strict=True))
    first += form.sizes[h] * (parent_action if counts[h] > 1 else 0)
    return row[first : first + form.sizes[h]]
