"""Which heads are active after which choices of others, as tables.

Heads on which others depend are *parent heads*. Everything that depends on them depends on their joint choice, of which
there are few, so that which heads are active is one table look-up, and an expectation over the joint distribution one
matrix product.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.actions.heads import Head
from surefoot.errors import ConfigError

MAX_JOINT_CHOICES = 4096
"""Of all parent heads together; each is a row of the tables."""


class HeadGraph(NamedTuple):
    """Tables of A heads, the H choice heads before the others, with C parent heads of G joint choices.

    K of these can occur: those in which inactive parents make choice 0. The *parent action* of a head is the choice of
    the head on which its mask may depend, else 0; there are V parent actions at most.
    """

    parents: Tensor
    """[C] which heads they are."""
    stride: Tensor
    """[C] what one step in a parent's choice adds to the number of the joint choice."""
    active: Tensor
    """[G, A] bool: whether each head is active, by number of the joint choice."""
    joint: Tensor
    """[K, C] the joint choices that can occur."""
    joint_active: Tensor
    """[K, A] bool: whether each head is active in them."""
    parent_action: Tensor
    """[K, H] the parent action of each choice head in them."""
    active_given: Tensor
    """[K, V, H] 1 where a choice head is active and has the parent action."""
    ancestors: Tensor
    """[H, C] bool: whether a choice head depends on a parent head, directly or through others."""

    def to(self, device: torch.device) -> HeadGraph:
        """The same on another device."""
        return HeadGraph(*(x.to(device) for x in self))

    def is_active(self, choice: Tensor) -> Tensor:
        """Whether each head is active, for choices [B, H] -> bool [B, A]."""
        number = (choice.index_select(-1, self.parents) * self.stride).sum(-1)
        return self.active.index_select(0, number)


def head_graph_of(heads: Sequence[Head], conditional: bool) -> HeadGraph:
    """The tables of heads, choice heads first. Only ``conditional`` masks depend on parent actions."""
    heads = list(heads) if conditional else [replace(head, mask_parent=None) for head in heads]
    n_choices = sum(head.size is not None for head in heads)
    parents = sorted(set().union(*(_parents(head) for head in heads)))
    sizes = [heads[c].size or 1 for c in parents]
    _require_few(heads, parents, sizes)
    every = [dict(zip(parents, choice, strict=True)) for choice in itertools.product(*map(range, sizes))]
    active = [[_is_active(h, heads, choice) for h in range(len(heads))] for choice in every]
    occurring = [k for k, choice in enumerate(every) if all(active[k][c] or not choice[c] for c in parents)]
    parent_action = _table(
        [[_parent_action(head, every[k]) for head in heads[:n_choices]] for k in occurring], n_choices
    )
    joint_active = _table([active[k] for k in occurring], len(heads)).bool()
    n_parent_actions = max((heads[h.mask_parent].size or 1 for h in heads if h.mask_parent is not None), default=1)
    has_parent_action = torch.arange(n_parent_actions)[None, :, None] == parent_action[:, None, :]
    return HeadGraph(
        torch.tensor(parents, dtype=torch.int64),
        torch.tensor([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], dtype=torch.int64),
        _table(active, len(heads)).bool(),
        _table([list(every[k].values()) for k in occurring], len(parents)),
        joint_active,
        parent_action,
        (has_parent_action & joint_active[:, None, :n_choices]).to(torch.float32),
        _table([[c in _ancestors(h, heads) for c in parents] for h in range(n_choices)], len(parents)).bool(),
    )


def depth(h: int, heads: Sequence[Head]) -> int:
    """How many other heads must have chosen, one after another, before head ``h`` can."""
    return max((1 + depth(c, heads) for c in _parents(heads[h])), default=0)


def _parents(head: Head) -> set[int]:
    """The heads that decide whether a head is active, and on which its mask depends."""
    return {c for c, _ in head.conditions} | ({head.mask_parent} if head.mask_parent is not None else set())


def _ancestors(h: int, heads: Sequence[Head]) -> set[int]:
    parents = _parents(heads[h])
    return parents.union(*(_ancestors(c, heads) for c in parents))


def _is_active(h: int, heads: Sequence[Head], choice: Mapping[int, int]) -> bool:
    return all(choice[c] in values and _is_active(c, heads, choice) for c, values in heads[h].conditions)


def _parent_action(head: Head, choice: Mapping[int, int]) -> int:
    return 0 if head.mask_parent is None else choice[head.mask_parent]


def _table(rows: Sequence[Sequence[int]], width: int) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), width)


def _require_few(heads: Sequence[Head], parents: Sequence[int], sizes: Sequence[int]) -> None:
    if math.prod(sizes) > MAX_JOINT_CHOICES:
        named = ", ".join(f"{heads[c].name!r} ({heads[c].size})" for c in parents)
        raise ConfigError(
            f"the heads on which others depend have {math.prod(sizes)} joint choices, more than {MAX_JOINT_CHOICES}: "
            f"{named}. Let heads depend on fewer others"
        )
