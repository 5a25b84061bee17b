"""Which heads matter for which choices of others, as tables.

Heads on which others depend are *controls*. Everything that depends on them depends on their joint choice, of which
there are few, so that relevance is one table look-up, and an expectation over the joint distribution one matrix
product.
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
"""Of all controls together; each is a row of the tables."""


class Dependence(NamedTuple):
    """Tables of A heads, the H choice heads before the others, with C controls of G joint choices.

    K of these can occur: those in which irrelevant controls make choice 0. The *context* of a head is the choice of the
    head on which its mask may depend, else 0; there are V contexts at most.
    """

    controls: Tensor
    """[C] which heads they are."""
    stride: Tensor
    """[C] what one step in a control's choice adds to the number of the joint choice."""
    relevant: Tensor
    """[G, A] bool: whether each head matters, by number of the joint choice."""
    joint: Tensor
    """[K, C] the joint choices that can occur."""
    matters: Tensor
    """[K, A] bool: whether each head matters in them."""
    context: Tensor
    """[K, H] the context of each choice head in them."""
    reach: Tensor
    """[K, V, H] 1 where a choice head matters and stands in the context."""
    above: Tensor
    """[H, C] bool: whether a choice head depends on a control, directly or through others."""

    def to(self, device: torch.device) -> Dependence:
        """The same on another device."""
        return Dependence(*(x.to(device) for x in self))

    def relevance(self, choice: Tensor) -> Tensor:
        """Whether each head matters, for choices [B, H] -> bool [B, A]."""
        number = (choice.index_select(-1, self.controls) * self.stride).sum(-1)
        return self.relevant.index_select(0, number)


def dependence_of(heads: Sequence[Head], wide: bool) -> Dependence:
    """The tables of heads, choice heads first. Only ``wide`` masks depend on choices, else there is one context."""
    heads = list(heads) if wide else [replace(head, given=None) for head in heads]
    n_choices = sum(head.size is not None for head in heads)
    controls = sorted(set().union(*(_parents(head) for head in heads)))
    sizes = [heads[c].size or 1 for c in controls]
    _require_few(heads, controls, sizes)
    every = [dict(zip(controls, choice, strict=True)) for choice in itertools.product(*map(range, sizes))]
    relevant = [[_is_relevant(h, heads, choice) for h in range(len(heads))] for choice in every]
    occurring = [k for k, choice in enumerate(every) if all(relevant[k][c] or not choice[c] for c in controls)]
    context = _table([[_context(head, every[k]) for head in heads[:n_choices]] for k in occurring], n_choices)
    matters = _table([relevant[k] for k in occurring], len(heads)).bool()
    n_parent_actions = max((heads[head.given].size or 1 for head in heads if head.given is not None), default=1)
    stands = torch.arange(n_parent_actions)[None, :, None] == context[:, None, :]
    return Dependence(
        torch.tensor(controls, dtype=torch.int64),
        torch.tensor([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], dtype=torch.int64),
        _table(relevant, len(heads)).bool(),
        _table([list(every[k].values()) for k in occurring], len(controls)),
        matters,
        context,
        (stands & matters[:, None, :n_choices]).to(torch.float32),
        _table([[c in _ancestors(h, heads) for c in controls] for h in range(n_choices)], len(controls)).bool(),
    )


def depth(h: int, heads: Sequence[Head]) -> int:
    """How many other heads must have chosen, one after another, before head ``h`` can."""
    return max((1 + depth(c, heads) for c in _parents(heads[h])), default=0)


def _parents(head: Head) -> set[int]:
    """The heads on which the relevance or the mask of a head depends."""
    return {c for c, _ in head.conditions} | ({head.given} if head.given is not None else set())


def _ancestors(h: int, heads: Sequence[Head]) -> set[int]:
    parents = _parents(heads[h])
    return parents.union(*(_ancestors(c, heads) for c in parents))


def _is_relevant(h: int, heads: Sequence[Head], choice: Mapping[int, int]) -> bool:
    return all(choice[c] in values and _is_relevant(c, heads, choice) for c, values in heads[h].conditions)


def _context(head: Head, choice: Mapping[int, int]) -> int:
    return 0 if head.given is None else choice[head.given]


def _table(rows: Sequence[Sequence[int]], width: int) -> Tensor:
    return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), width)


def _require_few(heads: Sequence[Head], controls: Sequence[int], sizes: Sequence[int]) -> None:
    if math.prod(sizes) > MAX_JOINT_CHOICES:
        named = ", ".join(f"{heads[c].name!r} ({heads[c].size})" for c in controls)
        raise ConfigError(
            f"the heads on which others depend have {math.prod(sizes)} joint choices, more than {MAX_JOINT_CHOICES}: "
            f"{named}. Let heads depend on fewer others"
        )
