"""Several categorical distributions side by side in one row of logits: the entries of distribution h are a segment of
the row.

One softmax serves all of them once they are padded: to the size of the largest (`Segments.pad`), or where an update
differentiates them in buckets of like size (`chosen`), so that eight short segments cost hardly more than one long one.
Rows are [..., S], distributions [..., H]; masks are True where legal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.math.masking import illegal_logit


class Segments(NamedTuple):
    """Where the entries of H distributions stand among the S columns of a row."""

    owner: Tensor
    """[S] the distribution of each column."""
    first: Tensor
    """[H] the first column of each distribution."""
    padded: Tensor
    """[H, n] the columns of each distribution; where it has fewer than n, its first one again."""
    is_real: Tensor
    """[H, n] False where `padded` only repeats the first column."""
    bucketed: Tensor
    """[W] the columns of each distribution again, with fewer repetitions: distributions are padded to the size of the
    largest in their bucket only, which at most doubles them."""
    is_bucketed_real: Tensor
    """[W] False where `bucketed` only repeats a column."""
    buckets: tuple[tuple[int, int], ...]
    """How many distributions, of how many padded entries each; at least one bucket."""

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Segments:
        """Distributions of the given sizes, one after another."""
        counts = torch.tensor(list(sizes), dtype=torch.int64)
        first = counts.cumsum(0) - counts
        widest = max(sizes, default=1)
        padded, is_real = (x.view(-1, widest) for x in _padded(counts, torch.full_like(counts, widest)))
        owner = torch.repeat_interleave(torch.arange(len(sizes)), counts)
        buckets = _buckets(sizes)
        bucketed = _padded(counts, torch.cat([torch.full((h,), n) for h, n in buckets]))
        return cls(owner, first, padded, is_real, *bucketed, buckets)

    def to(self, device: torch.device) -> Segments:
        """The same on another device."""
        return Segments(*(x if isinstance(x, tuple) else x.to(device) for x in self))  # type: ignore[arg-type]  # in order

    def pad(self, x: Tensor) -> Tensor:
        """Rows [..., S] -> [..., H, n]; padding repeats the first entry."""
        columns = x.index_select(-1, self.padded.flatten()) if self._is_uneven else x
        return columns.reshape(*x.shape[:-1], *self.padded.shape)

    def pad_mask(self, mask: Tensor | None) -> Tensor | None:
        """Masks [..., S] -> [..., H, n] with padding illegal; None if everything is legal."""
        if not self._is_uneven:
            return None if mask is None else self.pad(mask)
        return self.is_real if mask is None else self.pad(mask) & self.is_real

    @property
    def _is_uneven(self) -> bool:
        return self.padded.numel() != self.owner.numel()


def _padded(counts: Tensor, widths: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of distributions with ``counts`` entries, each padded to ``widths`` with its first column; and which
    of these are real."""
    distribution = torch.repeat_interleave(torch.arange(len(counts)), widths)
    entry = torch.arange(len(distribution)) - (widths.cumsum(0) - widths)[distribution]
    is_real = entry < counts[distribution]
    return (counts.cumsum(0) - counts)[distribution] + torch.where(is_real, entry, 0), is_real


def _buckets(sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Neighbours that can be padded to one size without having more than twice their entries."""
    found: list[list[int]] = []
    for size in sizes:
        together = [*found[-1], size] if found else []
        if together and len(together) * max(together) <= 2 * sum(together):
            found[-1] = together
        else:
            found.append([size])
    return tuple((len(bucket), max(bucket)) for bucket in found) or ((0, 1),)


def chosen(logits: Tensor, status: Tensor, segments: Segments, entropy_gradient: bool = True) -> tuple[Tensor, Tensor]:
    """ln p of the chosen entry, and the entropy, of each distribution [H, B], from logits [B, S] and the status of each
    bucketed entry [W, B]: 0 illegal or padding, 1 legal, 2 chosen, −2 chosen though illegal.

    A distribution with one legal entry has ln p and entropy 0, and gets no gradient. Rows stand last: a compiled update
    computes eight of them at a time.
    """
    found = []
    for log_p, is_chosen in zip(*bucketed_log_softmax(logits, status, segments, segments.bucketed), strict=True):
        log_prob = torch.where(is_chosen, log_p, 0.0).sum(1)
        of_entropy = log_p if entropy_gradient else log_p.detach()
        found.append((log_prob, -(of_entropy.exp() * of_entropy).sum(1)))
    if len(found) == 1:
        return found[0]
    log_probs, entropies = zip(*found, strict=True)
    return torch.cat(log_probs), torch.cat(entropies)


def bucketed_log_softmax(
    logits: Tensor, status: Tensor, segments: Segments, column: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """ln p of each entry, and whether it was chosen, of each bucket [distributions, entries, B], from logits [B, S] in
    the columns [W] and their status as in `chosen`."""
    entries = torch.where(status > 0, logits.t().index_select(0, column), illegal_logit(logits.dtype))
    parts = [(entries, status.abs() > 1)]
    if len(segments.buckets) > 1:
        sizes = [math.prod(bucket) for bucket in segments.buckets]
        parts = list(zip(*(torch.split(x, sizes) for x in parts[0]), strict=True))
    viewed = [
        [x.view(*bucket, x.shape[-1]) for x in part] for bucket, part in zip(segments.buckets, parts, strict=True)
    ]
    return [torch.log_softmax(own, 1) for own, _ in viewed], [is_chosen for _, is_chosen in viewed]
