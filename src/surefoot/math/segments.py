"""Several categorical distributions side by side in one row of logits: the entries of distribution h are a segment of
the row.

All distributions are normalized at once, so that eight short segments cost hardly more than one long one: by a matrix
product with the membership matrix or, where an update differentiates them, by one softmax of segments padded
(`chosen`). Rows are [..., S], distributions [..., H]; masks are True where legal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from surefoot.math.kl import relative_entropy_terms


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
    members: Tensor
    """[S, H] 1 where the column belongs to the distribution."""
    place: Tensor
    """[W] the columns of each distribution again, with fewer repetitions: distributions are padded to the size of the
    largest in their block only, which at most doubles them."""
    is_place: Tensor
    """[W] False where `place` only repeats a column."""
    blocks: tuple[tuple[int, int], ...]
    """How many distributions, of how many places each; at least one."""

    @classmethod
    def of(cls, sizes: Sequence[int]) -> Segments:
        """Categoricals of the given sizes, one after another."""
        counts = torch.tensor(list(sizes), dtype=torch.int64)
        first = counts.cumsum(0) - counts
        widest = max(sizes, default=1)
        padded, is_real = (x.view(-1, widest) for x in _padded(counts, torch.full_like(counts, widest)))
        owner = torch.repeat_interleave(torch.arange(len(sizes)), counts)
        members = (owner[:, None] == torch.arange(len(sizes))).to(torch.float32)
        blocks = _blocks(sizes)
        place, is_place = _padded(counts, torch.cat([torch.full((h,), n) for h, n in blocks]))
        return cls(owner, first, padded, is_real, members, place, is_place, blocks)

    def to(self, device: torch.device) -> Segments:
        """The same on another device."""
        return Segments(*(x if isinstance(x, tuple) else x.to(device) for x in self))  # type: ignore[arg-type]  # in order


def _padded(counts: Tensor, n_places: Tensor) -> tuple[Tensor, Tensor]:
    """The columns of distributions with ``counts`` entries, each padded to ``n_places`` with its first column; and
    which of these places are real."""
    distribution = torch.repeat_interleave(torch.arange(len(counts)), n_places)
    entry = torch.arange(len(distribution)) - (n_places.cumsum(0) - n_places)[distribution]
    is_real = entry < counts[distribution]
    return (counts.cumsum(0) - counts)[distribution] + torch.where(is_real, entry, 0), is_real


def _blocks(sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Categoricals next to each other that can be padded to one size without having more than twice their entries."""
    found: list[list[int]] = []
    for size in sizes:
        together = [*found[-1], size] if found else []
        if together and len(together) * max(together) <= 2 * sum(together):
            found[-1] = together
        else:
            found.append([size])
    return tuple((len(block), max(block)) for block in found) or ((0, 1),)


class Categoricals(NamedTuple):
    """H normalized distributions: p = weight/total, ln p = shifted − log_total."""

    shifted: Tensor
    """[..., S] logits minus the largest legal one of their distribution; `_illegal` where illegal."""
    weight: Tensor
    """[..., S] exp(shifted); exactly 0 where illegal."""
    total: Tensor
    """[..., H] sum of the weights, at least 1."""
    log_total: Tensor
    """[..., H], at least 0."""


def normalize(logits: Tensor, mask: Tensor | None, segments: Segments) -> Categoricals:
    """Softmax of each segment over its legal entries.

    An illegal entry has probability exactly 0, its logit no influence (NaN included) and no gradient; a distribution
    with one legal entry has entropy 0 and gradient 0. A distribution without a legal entry is not normalized: every
    probability is 0.
    """
    illegal = _illegal(logits.dtype)
    with torch.no_grad():  # the shift cancels, so that its gradient is 0
        legal = logits if mask is None else torch.where(mask, logits, illegal)
        largest = _columns(legal, segments.padded).amax(-1)
        shift = largest.index_select(-1, segments.owner)
    shifted = logits - shift
    if mask is not None:
        shifted = torch.where(mask, shifted, illegal)
    weight = shifted.exp()
    total = weight @ segments.members.to(weight.dtype)
    if mask is not None:  # the largest legal entry weighs 1, so that this only acts where none is legal
        total = total.clamp(min=1.0)
    return Categoricals(shifted, weight, total, total.log())


def _illegal(dtype: torch.dtype) -> float:
    """In place of illegal logits: half the lowest number, so that the difference to a legal one is finite."""
    return torch.finfo(dtype).min / 2


def log_prob(distributions: Categoricals, choice: Tensor, segments: Segments) -> Tensor:
    """ln p of one choice in each distribution, int64 [..., H] -> [..., H]."""
    return distributions.shifted.gather(-1, choice + segments.first) - distributions.log_total


def log_probs(distributions: Categoricals, segments: Segments) -> Tensor:
    """ln p of every entry, [..., S]; an enormous negative number where illegal."""
    return distributions.shifted - distributions.log_total.index_select(-1, segments.owner)


def entropy(distributions: Categoricals, segments: Segments) -> Tensor:
    """H = ln Σ_j e^{z_j} − Σ_j p_j z_j of each distribution, in nats, [..., H]; with z ≤ 0 neither term is below 0."""
    return distributions.log_total - _mean(distributions, distributions.shifted, segments)


def chosen(logits: Tensor, status: Tensor, segments: Segments, entropy_gradient: bool = True) -> tuple[Tensor, Tensor]:
    """ln p of the chosen entry, and the entropy, of each distribution [H, B], from logits [B, S] and what was at each
    place [W, B]: 0 an illegal entry or none, 1 a legal one, 2 the chosen one, −2 one that was chosen though illegal.

    A distribution with one legal entry has ln p and entropy 0, and gets no gradient. Rows stand last: a compiled update
    computes eight of them at a time.
    """
    found = []
    for log_p, is_chosen in zip(*padded_log_softmax(logits, status, segments, segments.place), strict=True):
        log_prob = torch.where(is_chosen, log_p, 0.0).sum(1)
        of_entropy = log_p if entropy_gradient else log_p.detach()
        found.append((log_prob, -(of_entropy.exp() * of_entropy).sum(1)))
    if len(found) == 1:
        return found[0]
    log_probs, entropies = zip(*found, strict=True)
    return torch.cat(log_probs), torch.cat(entropies)


def padded_log_softmax(
    logits: Tensor, status: Tensor, segments: Segments, column: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """ln p at each place, and whether it was chosen, of each block [distributions, places, B], from logits [B, S] in
    the columns [W] and what was there as in `chosen`."""
    entries = torch.where(status > 0, logits.t().index_select(0, column), _illegal(logits.dtype))
    parts = [(entries, status.abs() > 1)]
    if len(segments.blocks) > 1:
        sizes = [math.prod(block) for block in segments.blocks]
        parts = list(zip(*(torch.split(x, sizes) for x in parts[0]), strict=True))
    viewed = [[x.view(*block, x.shape[-1]) for x in part] for block, part in zip(segments.blocks, parts, strict=True)]
    return [torch.log_softmax(own, 1) for own, _ in viewed], [is_chosen for _, is_chosen in viewed]


def kl(old: Categoricals, new: Categoricals, segments: Segments) -> Tensor:
    """KL(old ‖ new) of each distribution, [..., H]; enormous if `new` forbids what `old` allows."""
    terms = relative_entropy_terms(log_probs(old, segments), log_probs(new, segments))
    return terms @ segments.members.to(terms.dtype)


def draw(distributions: Categoricals, segments: Segments, log_noise: Tensor | None) -> Tensor:
    """One choice of each distribution, int64 [..., H]: argmax_j(z_j − ln E_j) with ``log_noise`` ln E, E ~
    Exponential(1), of shape [..., H, n] (the Gumbel-max trick); the most likely choice without it."""
    scores = _columns(distributions.shifted, segments.padded)
    if log_noise is None:
        return scores.argmax(-1)  # of equal entries the first: never a repetition
    lowest = torch.finfo(scores.dtype).min
    return torch.where(segments.is_real, scores - log_noise, lowest).argmax(-1)


def _columns(x: Tensor, columns: Tensor) -> Tensor:
    """[..., S] -> [..., *columns.shape]; much faster than indexing by a tensor."""
    return x.index_select(-1, columns.flatten()).reshape(*x.shape[:-1], *columns.shape)


def _mean(distributions: Categoricals, x: Tensor, segments: Segments) -> Tensor:
    """E[x] of each distribution."""
    return ((distributions.weight * x) @ segments.members.to(x.dtype)) / distributions.total
