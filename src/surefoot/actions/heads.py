"""Factored actions as data: named heads, some of which are active only after some choices of other heads.

An environment declares them in its attribute ``action_heads``; adding a head touches no code::

    action_heads = (
        HeadSpec("op", ("WAIT", "GERMINATE", "PRUNE")),
        HeadSpec("slot", 3, relevant_when={"op": ("GERMINATE", "PRUNE")}),
        HeadSpec("kind", 5, relevant_when={"op": ("GERMINATE",)}),
    )
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from gymnasium import spaces

from surefoot.errors import ConfigError, UnsupportedSpaceError

Path = tuple[str | int, ...]
Values = Sequence[int | str] | int | str


@dataclass(frozen=True)
class HeadSpec:
    """One head: its name, how many choices it has or what they are called, and when it is active.

    ``relevant_when`` maps names of other heads to the choices (names or indices) of theirs after which this
    head is active; all of them must hold, and a head that depends on an inactive one is inactive too. ``n`` may be left
    out where the action space tells, and must be for a part that is no choice among n (Box, MultiBinary).
    """

    name: str
    n: int | Sequence[str] | None = None
    relevant_when: Mapping[str, Values] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"a head's name must be a text, got {self.name!r}")
        if self.n is not None:
            object.__setattr__(self, "n", _choices(self.name, self.n))
        if self.relevant_when is not None:
            object.__setattr__(self, "relevant_when", _conditions(self.name, self.relevant_when))

    @property
    def size(self) -> int | None:
        """How many choices, or None if only the action space knows."""
        return self.n if self.n is None or isinstance(self.n, int) else len(self.n)

    def index_of(self, value: int | str) -> int:
        """The index of one of this head's choices, given by name or index."""
        if isinstance(value, str):
            names = () if self.n is None or isinstance(self.n, int) else tuple(self.n)
            if value not in names:
                known = f"its choices are {', '.join(names)}{nearest(value, names)}" if names else "it has no names"
                raise ConfigError(f"the head {self.name!r} has no choice {value!r}: {known}")
            return names.index(value)
        if not 0 <= value < (self.size or 0):
            raise ConfigError(f"the head {self.name!r} has no choice {value}: it has {self.size}, counted from 0")
        return int(value)


@dataclass(frozen=True)
class Head:
    """A head as the rest of Surefoot sees it: every reference is an index."""

    name: str
    size: int | None
    """Choices; None for a part that is no choice among n."""
    path: Path
    """Where its part stands in the action space."""
    position: int = 0
    """Which of the choices of that part it is."""
    conditions: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """(head, choices): this head is active if each of these heads is active and chose one of its choices."""
    mask_parent: int | None = None
    """The head on whose choice the mask of this one may depend."""
    choice_names: tuple[str, ...] = ()

    def says(self, choice: int) -> str:
        """What choice ``choice`` is called."""
        return self.choice_names[choice] if self.choice_names else str(choice)


def heads_of(space: spaces.Space[Any], declared: Sequence[HeadSpec] | None = None) -> tuple[Head, ...]:
    """The heads of an action space, as the env declares them or as the space has them.

    A Dict's parts are matched by name (a part that is not declared is always active), those of other spaces by
    position. In a nested space names are joined by ``/``, and so are the positions in a MultiDiscrete part.
    A mask may depend on another head where heads are declared or the space is a Dict or Tuple.
    """
    in_space = list(_space_heads(space, ()))
    specs = [HeadSpec(name, size) for name, size, *_ in in_space]
    if declared is not None:
        specs, in_space = _match(space, tuple(declared), in_space)
    _require_distinct([spec.name for spec in specs])
    heads = _resolve(specs, in_space)
    if declared is not None or isinstance(space, spaces.Dict | spaces.Tuple):
        return heads
    return tuple(replace(head, mask_parent=None) for head in heads)


def parts_of(space: spaces.Space[Any], path: Path = ()) -> Iterator[tuple[Path, spaces.Space[Any]]]:
    """The leaves of a nested action space and where they stand, in the space's order."""
    if isinstance(space, spaces.Dict):
        for key, sub in space.spaces.items():
            yield from parts_of(sub, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for i, sub in enumerate(space.spaces):
            yield from parts_of(sub, (*path, i))
    elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary | spaces.Box):
        yield path, space
    else:
        where = f" at {'/'.join(map(str, path))!r}" if path else ""
        raise UnsupportedSpaceError(
            f"No action distribution for {space}{where}. Supported: Discrete, MultiDiscrete, MultiBinary, "
            "floating-point Box, and Dict or Tuple of these"
        )


def assemble(space: spaces.Space[Any], parts: Mapping[Path, Any], path: Path = ()) -> Any:
    """The inverse of `parts_of` for values: one for each leaf, nested as the space is."""
    if isinstance(space, spaces.Dict):
        return {key: assemble(sub, parts, (*path, key)) for key, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(assemble(sub, parts, (*path, i)) for i, sub in enumerate(space.spaces))
    return parts[path]


def nearest(name: str, options: Sequence[str]) -> str:
    """``; did you mean …?`` or nothing."""
    close = difflib.get_close_matches(name, options, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


SpaceHead = tuple[str, int | None, Path, int]
"""Name, number of choices, path and position of one head that a space has."""


def _space_heads(space: spaces.Space[Any], path: Path) -> Iterator[SpaceHead]:
    for where, leaf in parts_of(space, path):
        name = "/".join(map(str, where)) or "action"
        if isinstance(leaf, spaces.Discrete):
            yield name, int(leaf.n), where, 0
        elif isinstance(leaf, spaces.MultiDiscrete):
            prefix = f"{name}/" if where else ""
            for k, size in enumerate(leaf.nvec.reshape(-1).tolist()):
                yield f"{prefix}{k}", int(size), where, k
        else:
            yield name, None, where, 0


def _match(
    space: spaces.Space[Any], declared: tuple[HeadSpec, ...], in_space: list[SpaceHead]
) -> tuple[list[HeadSpec], list[SpaceHead]]:
    """Declared heads, and what the space says of each; sizes must agree."""
    for spec in declared:
        if not isinstance(spec, HeadSpec):
            raise ConfigError(f"action_heads must hold surefoot.HeadSpec, found {spec!r}")
    _require_distinct([spec.name for spec in declared])
    if isinstance(space, spaces.Dict):
        by_name = {found[0]: found for found in in_space}
        for spec in declared:
            if spec.name not in by_name:
                raise ConfigError(
                    f"the head {spec.name!r} is not in the action space, whose parts are {', '.join(by_name)}"
                    f"{nearest(spec.name, list(by_name))}"
                )
        named = {spec.name for spec in declared}
        rest = [found for found in in_space if found[0] not in named]
        specs = [*declared, *(HeadSpec(name, size) for name, size, *_ in rest)]
        in_space = [*(by_name[spec.name] for spec in declared), *rest]
    else:
        if len(declared) != len(in_space):
            raise ConfigError(
                f"action_heads has {len(declared)} heads, the action space {space} has {len(in_space)} parts; a "
                "wrapper that changes the action space should set action_heads to match, or to None"
            )
        specs = list(declared)
    return [_sized(spec, size, space) for spec, (_, size, *_) in zip(specs, in_space, strict=True)], in_space


def _sized(spec: HeadSpec, size: int | None, space: spaces.Space[Any]) -> HeadSpec:
    if spec.n is None:
        return HeadSpec(spec.name, size, spec.relevant_when)
    if spec.size != size:
        has = "is no choice among n there" if size is None else f"has {size} there"
        raise ConfigError(f"the head {spec.name!r} has {spec.size} choices, but {has}: the action space is {space}")
    return spec


def _resolve(specs: list[HeadSpec], in_space: list[SpaceHead]) -> tuple[Head, ...]:
    index = {spec.name: i for i, spec in enumerate(specs)}
    conditions = [_indexed(spec, specs, index) for spec in specs]
    _require_acyclic(specs, conditions)
    operation = next((i for i, spec in enumerate(specs) if spec.size is not None and not conditions[i]), None)
    heads = []
    for i, (spec, (*_, path, position)) in enumerate(zip(specs, in_space, strict=True)):
        mask_parent = conditions[i][0][0] if conditions[i] else None if i == operation else operation
        mask_parent = None if spec.size is None else mask_parent
        names = () if spec.n is None or isinstance(spec.n, int) else tuple(spec.n)
        heads.append(Head(spec.name, spec.size, path, position, conditions[i], mask_parent, names))
    return tuple(heads)


def choices_first(heads: Sequence[Head]) -> tuple[Head, ...]:
    """The same heads with those that are choices among n before the others."""
    order = sorted(range(len(heads)), key=lambda i: heads[i].size is None)
    index = {old: new for new, old in enumerate(order)}
    return tuple(
        replace(
            heads[i],
            conditions=tuple((index[c], values) for c, values in heads[i].conditions),
            mask_parent=None if (parent := heads[i].mask_parent) is None else index[parent],
        )
        for i in order
    )


def _indexed(
    spec: HeadSpec, specs: list[HeadSpec], index: Mapping[str, int]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    found = []
    for other, values in (spec.relevant_when or {}).items():
        if other == spec.name:
            raise ConfigError(f"the head {spec.name!r} depends on itself: drop {other!r} from its relevant_when")
        if other not in index:
            raise ConfigError(
                f"the head {spec.name!r} depends on {other!r}, which is no head; the heads are "
                f"{', '.join(index)}{nearest(other, list(index))}"
            )
        parent = specs[index[other]]
        if parent.size is None:
            raise ConfigError(f"the head {spec.name!r} depends on {other!r}, which is no choice among n")
        try:
            chosen = sorted({parent.index_of(value) for value in _listed(values)})
        except ConfigError as error:
            raise ConfigError(f"relevant_when of the head {spec.name!r}: {error}") from None
        found.append((index[other], tuple(chosen)))
    return tuple(found)


def _require_acyclic(specs: list[HeadSpec], conditions: Sequence[tuple[tuple[int, Any], ...]]) -> None:
    settled: set[int] = set()
    while len(settled) < len(specs):
        free = [i for i in range(len(specs)) if i not in settled and all(c in settled for c, _ in conditions[i])]
        if not free:
            ring = ", ".join(repr(specs[i].name) for i in range(len(specs)) if i not in settled)
            raise ConfigError(f"the heads {ring} depend on each other in a circle; one of them must come first")
        settled.update(free)


def _require_distinct(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"two heads are called {twice[0]!r}; each needs a name of its own")


def _choices(name: str, n: Any) -> int | tuple[str, ...]:
    if isinstance(n, bool | str) or not isinstance(n, Integral | Sequence):
        raise ConfigError(f"the head {name!r}: n must be a number of choices or a sequence of their names, got {n!r}")
    if isinstance(n, Integral):
        if n < 1:
            raise ConfigError(f"the head {name!r} must have at least 1 choice, got {n}")
        return int(n)
    names = tuple(n)
    if not names or not all(isinstance(choice, str) and choice for choice in names) or len(set(names)) < len(names):
        raise ConfigError(f"the head {name!r} must have distinct names of choices, got {list(names)}")
    return names


def _conditions(name: str, relevant_when: Any) -> dict[str, tuple[int | str, ...]]:
    if not isinstance(relevant_when, Mapping):
        raise ConfigError(
            f'relevant_when of the head {name!r} must be like {{"op": ("A", "B")}}, got {relevant_when!r}'
        )
    found = {}
    for other, values in relevant_when.items():
        listed = _listed(values)
        if not listed or not all(isinstance(v, Integral | str) for v in listed):
            raise ConfigError(
                f"relevant_when[{other!r}] of the head {name!r} must hold names or indices of choices, got {values!r}"
            )
        found[other] = listed
    return found


def _listed(values: Any) -> tuple[Any, ...]:
    """A lone choice is a list of one."""
    return tuple(values) if isinstance(values, Iterable) and not isinstance(values, str) else (values,)
