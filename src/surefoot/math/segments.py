"""Several categorical laws side by side in one row of logits: the entries of law h are a segment of the row.

All laws are normalised by one matrix product with the membership matrix, so that eight short segments cost hardly more
than one long one, and no segment is padded. Rows are [..., S], laws [..., H]; masks are True where legal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Segments(NamedTuple):
    """Where the entries of H laws stand among the S columns of a row."""

    owner: Tensor
    """[S] the law of each column."""
    first: Tensor
    """[H] the first column of each law."""
    padded: Tensor
    """[H, n] the columns of each law; where it has fewer than n, its first one again."""
    is_real: Tensor
    """[H, n] False where `padded` only repeats the first column."""
    members: Tensor
    """[S, H] 1 where the column belongs to the law."""

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Segments:
        """Laws of the given sizes, one after another."""
        counts = torch.tensor(list(sizes), dtype=torch.int64)
        first = counts.cumsum(0) - counts
        column = torch.arange(max(sizes, default=1))
        is_real = column < counts[:, None]
        padded = first[:, None] + torch.where(is_real, column, 0)
        owner = torch.repeat_interleave(torch.arange(len(sizes)), counts)
        members = (owner[:, None] == torch.arange(len(sizes))).to(torch.float32)
        return cls(owner, first, padded, is_real, members)

    def to(self, device: torch.device) -> Segments:
        """The same on another device."""
        return Segments(*(x.to(device) for x in self))


class Laws(NamedTuple):
    """H normalised laws: p = weight/total, ln p = shifted − log_total."""

    shifted: Tensor
    """[..., S] logits minus the largest legal one of their law; the lowest finite number where illegal."""
    weight: Tensor
    """[..., S] exp(shifted); exactly 0 where illegal."""
    total: Tensor
    """[..., H] sum of the weights, at least 1."""
    log_total: Tensor
    """[..., H], at least 0."""


def normalise(logits: Tensor, mask: Tensor | None, segments: Segments) -> Laws:
    """Softmax of each segment over its legal entries.

    An illegal entry has probability exactly 0, its logit no influence (NaN included) and no gradient; a law with one
    legal entry has entropy 0 and gradient 0. A law without a legal entry is not normalised: every probability is 0.
    """
    lowest = torch.finfo(logits.dtype).min
    with torch.no_grad():  # the shift cancels, so that its gradient is 0
        legal = logits if mask is None else torch.where(mask, logits, lowest)
        largest = _columns(legal, segments.padded).amax(-1)
        shift = largest.index_select(-1, segments.owner)
    shifted = logits - shift
    if mask is not None:
        shifted = torch.where(mask, shifted, lowest)
    weight = shifted.exp()
    total = weight @ segments.members.to(weight.dtype)
    if mask is not None:  # the largest legal entry weighs 1, so that this only acts where none is legal
        total = total.clamp(min=1.0)
    return Laws(shifted, weight, total, total.log())


def log_prob(laws: Laws, choice: Tensor, segments: Segments) -> Tensor:
    """ln p of one choice in each law, int64 [..., H] -> [..., H]."""
    return laws.shifted.gather(-1, choice + segments.first) - laws.log_total


def log_probs(laws: Laws, segments: Segments) -> Tensor:
    """ln p of every entry, [..., S]; the lowest finite number where illegal."""
    lowest = torch.finfo(laws.shifted.dtype).min
    return (laws.shifted - laws.log_total.index_select(-1, segments.owner)).clamp(min=lowest)


def entropy(laws: Laws, segments: Segments) -> Tensor:
    """H = ln Σ_j e^{z_j} − Σ_j p_j z_j of each law, in nats, [..., H]; with z ≤ 0 neither term is below 0."""
    return laws.log_total - _mean(laws, laws.shifted, segments)


def chosen(logits: Tensor, status: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
    """ln p of the chosen entry, and the entropy, of each law [H, B], from logits [B, S] and what each entry was [S, B]:
    0 illegal, 1 legal, 2 chosen, −2 chosen though illegal.

    A law without a legal entry has ln p and entropy 0, and gets no gradient. Rows stand last: a compiled update
    computes eight of them at a time.
    """
    lowest, legal, logits = torch.finfo(logits.dtype).min, status > 0, logits.t()
    with torch.no_grad():
        entries = torch.where(legal, logits, lowest).index_select(0, segments.padded.flatten())
        largest = entries.view(*segments.padded.shape, logits.shape[1]).amax(1)
        shift = largest.index_select(0, segments.owner)
    shifted = torch.where(legal, logits - shift, lowest)
    weight, members = shifted.exp(), segments.members.t().to(logits.dtype)
    total = (members @ weight).clamp(min=1.0)
    log_total = total.log()
    log_prob = members @ torch.where(status.abs() > 1, shifted, 0.0) - log_total
    return log_prob, log_total - (members @ (weight * shifted)) / total


def kl(old: Laws, new: Laws, segments: Segments) -> Tensor:
    """KL(old ‖ new) of each law, [..., H]; enormous if `new` forbids what `old` allows."""
    gap = torch.where(old.weight > 0, old.shifted - new.shifted, 0.0)
    return _mean(old, gap, segments) - old.log_total + new.log_total


def draw(laws: Laws, segments: Segments, log_noise: Tensor | None) -> Tensor:
    """One choice of each law, int64 [..., H]: argmax_j(z_j − ln E_j) with ``log_noise`` ln E, E ~ Exponential(1), of
    shape [..., H, n] (the Gumbel-max trick); the most likely choice without it."""
    scores = _columns(laws.shifted, segments.padded)
    if log_noise is None:
        return scores.argmax(-1)  # of equal entries the first: never a repetition
    lowest = torch.finfo(scores.dtype).min
    return torch.where(segments.is_real, scores - log_noise, lowest).argmax(-1)


def _columns(x: Tensor, columns: Tensor) -> Tensor:
    """[..., S] -> [..., *columns.shape]; much faster than indexing by a tensor."""
    return x.index_select(-1, columns.flatten()).reshape(*x.shape[:-1], *columns.shape)


def _mean(laws: Laws, x: Tensor, segments: Segments) -> Tensor:
    """E[x] of each law."""
    return ((laws.weight * x) @ segments.members.to(x.dtype)) / laws.total
