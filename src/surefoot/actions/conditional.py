"""The exact joint entropy of factored actions, head by head, as an entropy bonus differentiates it (P13).

    H(a) = Σ_h Σ_v P(h is active and its parent action is v)·H(h | v)

Each head has one categorical for each parent action under which it can be active: one, unless masks depend on choices.
The probabilities depend on the choices of the parent heads, so that an operation gets more of the bonus the more
choices it opens.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from surefoot.actions.head_graph import HeadGraph
from surefoot.math import segments as math_segments
from surefoot.math.segments import Segments


class Conditionals(NamedTuple):
    """L categoricals of H choice heads, entry after entry, and in which of K joint choices of C parent heads each
    counts; tables on one device. Entries are bucketed as `Segments.bucketed` has them."""

    segments: Segments
    """Of the categoricals."""
    column: Tensor
    """[W] the logit of each bucketed entry."""
    flag: Tensor
    """[N] where the flag of each entry stands in a mask."""
    first: Tensor
    """[V, H] the first entry of each head's categorical given a parent action; 0 where it is never active."""
    parent: Tensor
    """[H] the head that decides the parent action; itself if none does."""
    has_parent: Tensor
    """[H] 1, or 0 if none does."""
    of_head: Tensor
    """[H + O, L + O] 1 where a categorical is one of the head, and for each of the O other heads itself."""
    counts: Tensor
    """[L + O, K] 1 where a categorical, or another head, is active in a joint choice."""
    chosen: Tensor
    """[K·C] the bucketed entry of the choice of each parent head in each joint choice."""
    is_active: Tensor
    """[K, C, 1] bool: whether the parent head is active itself."""
    n_buckets: int
    """How many buckets of the segments, from the first, hold all parent heads."""
    one_each: bool
    """Whether each head has one categorical, in order."""

    def to(self, device: torch.device) -> Conditionals:
        """The same on another device."""
        return Conditionals(*(x if isinstance(x, int) else x.to(device) for x in self))  # type: ignore[arg-type]  # in order

    def entries_of(self, choice: Tensor) -> Tensor:
        """The entry that each choice [B, H] is, given the parent actions among them; not to be read for inactive
        heads."""
        parent_action = choice.index_select(1, self.parent) * self.has_parent
        return self.first.gather(0, parent_action) + choice


def conditionals_of(heads: Segments, graph: HeadGraph, flag: Tensor, mask_parent: list[int | None]) -> Conditionals:
    """The tables of heads whose entries are ``heads``, with flags at ``flag`` [V, S] and masks that depend on
    ``mask_parent``."""
    sizes = heads.is_real.sum(1).tolist()
    n_heads, n_parent_actions = len(sizes), graph.active_given.shape[1]
    active = [
        (h, v) for h in range(n_heads) for v in range(n_parent_actions) if bool(graph.active_given[:, v, h].any())
    ]
    segments = Segments.of([sizes[h] for h, _ in active])
    own = [heads.first[h] + torch.arange(sizes[h]) for h, _ in active]
    column = torch.cat([*own, heads.first[:0]])
    index = torch.zeros(n_parent_actions, n_heads, dtype=torch.int64)
    for i, (h, v) in enumerate(active):
        index[v, h] = i
    counts = [graph.active_given[:, v, h] for h, v in active]
    others = graph.joint_active[:, n_heads:].to(torch.float32).unbind(1)
    owners = [*(h for h, _ in active), *range(n_heads, n_heads + len(others))]
    of_head = torch.zeros(n_heads + len(others), len(owners))
    of_head[owners, range(len(owners))] = 1.0
    # The parent heads' own categoricals, given the parent actions of each joint choice.
    parents = graph.parents
    of_parents = index[graph.parent_action[:, parents], parents]
    widths = np.repeat([n for _, n in segments.buckets], [h for h, _ in segments.buckets])
    begins = torch.from_numpy(np.cumsum(widths) - widths)
    ends = np.cumsum([h for h, _ in segments.buckets])
    return Conditionals(
        segments,
        column.index_select(0, segments.bucketed),
        torch.cat([*(flag[v].index_select(0, x) for (_, v), x in zip(active, own, strict=True)), column[:0]]),
        segments.first[index] if active else index,
        torch.tensor([h if p is None else p for h, p in enumerate(mask_parent)], dtype=torch.int64),
        torch.tensor([int(p is not None) for p in mask_parent], dtype=torch.int64),
        of_head,
        torch.stack([*counts, *others]),
        (begins[of_parents] + graph.joint).flatten(),
        graph.joint_active.index_select(1, parents).unsqueeze(-1),
        int(np.searchsorted(ends, int(of_parents.max()), side="right")) + 1 if of_parents.numel() else 0,
        owners == list(range(len(of_head))),
    )


class ConditionalTerms(NamedTuple):
    """By choice head, [H, B]; the last by head, [H + O, B]."""

    log_prob: Tensor
    """Of the choices made; 0 of inactive heads."""
    entropy: Tensor
    """Given the choices made; 0 of inactive heads. Without gradient."""
    expected_entropy: Tensor
    """In the mean over all that could be chosen: their sum is the joint entropy."""


def conditional_terms(logits: Tensor, status: Tensor, table: Conditionals, others: Tensor | None) -> ConditionalTerms:
    """From logits [B, S], the status of each bucketed entry [W, B] as in `segments.chosen` (of all categoricals, with
    nothing chosen in those that were not active) and the entropies [O, B] of other heads."""
    log_ps, are_chosen = math_segments.bucketed_log_softmax(logits, status, table.segments, table.column)
    ps = [log_p.exp() for log_p in log_ps]
    log_prob = _joined([torch.where(c, log_p, 0.0).sum(1) for log_p, c in zip(log_ps, are_chosen, strict=True)])
    entropy = _joined([-(p * log_p).sum(1) for p, log_p in zip(ps, log_ps, strict=True)])
    taken = entropy.detach() * _joined([c.any(1) for c in are_chosen])
    if others is not None:
        entropy = torch.cat([entropy, others])
    expected = table.counts.to(logits.dtype) @ _joint_probability(ps, log_ps, table) * entropy
    if not table.one_each:
        of_head = table.of_head.to(logits.dtype)
        of_choice = of_head[: table.first.shape[1], : log_prob.shape[0]]
        log_prob, taken, expected = of_choice @ log_prob, of_choice @ taken, of_head @ expected
    return ConditionalTerms(log_prob, taken, expected)


def _joint_probability(ps: list[Tensor], log_ps: list[Tensor], table: Conditionals) -> Tensor:
    """[K, B] the probability of each joint choice of the parent heads."""
    n_parents = table.is_active.shape[1]
    if n_parents == 1:  # which depends on no other head
        return _entries(ps, table).index_select(0, table.chosen)
    log_p = _entries(log_ps, table).index_select(0, table.chosen)
    log_p = log_p.view(-1, n_parents, log_p.shape[-1])
    return torch.where(table.is_active, log_p, 0.0).sum(1).exp()


def _entries(buckets: list[Tensor], table: Conditionals) -> Tensor:
    """[W′, B] of the first buckets, entry after entry."""
    return _joined([bucket.flatten(0, 1) for bucket in buckets[: table.n_buckets]])


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)
