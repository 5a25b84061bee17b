"""Categoricals side by side: what a reader can work out, and the corners."""

from __future__ import annotations

import pytest
import torch

from surefoot.math import segments as math_segments
from surefoot.math.segments import Segments


def test_the_columns_of_three_distributions() -> None:
    segments = Segments.of([2, 3, 1])
    assert segments.owner.tolist() == [0, 0, 1, 1, 1, 2]
    assert segments.first.tolist() == [0, 2, 5]
    assert segments.padded.tolist() == [[0, 1, 0], [2, 3, 4], [5, 5, 5]]
    assert segments.is_real.tolist() == [[True, True, False], [True] * 3, [True, False, False]]


def test_rows_are_padded_to_the_largest_distribution() -> None:
    row = torch.arange(6.0)[None]
    assert Segments.of([2, 3, 1]).pad(row).tolist() == [[[0, 1, 0], [2, 3, 4], [5, 5, 5]]]
    assert Segments.of([3, 3]).pad(row).tolist() == [[[0, 1, 2], [3, 4, 5]]]
    assert Segments.of([6]).pad(row.expand(4, 2, 6)).shape == (4, 2, 1, 6)


def test_padding_is_illegal_whatever_the_mask_says() -> None:
    uneven, even = Segments.of([1, 2]), Segments.of([2, 2])
    legal = uneven.pad_mask(None)
    assert legal is not None
    assert legal.tolist() == [[True, False], [True, True]]
    legal = uneven.pad_mask(torch.tensor([[True, False, True]]))
    assert legal is not None
    assert legal.tolist() == [[[True, False], [False, True]]]
    assert even.pad_mask(None) is None


@pytest.mark.parametrize(
    ("sizes", "buckets"),
    [
        ([2, 3, 4], ((3, 4),)),
        ([5], ((1, 5),)),
        ([], ((0, 1),)),
        ([2, 2, 1000], ((2, 2), (1, 1000))),
        ([1000, 2, 2], ((2, 1000), (1, 2))),
        ([1, 1, 1, 1, 30, 30], ((4, 1), (2, 30))),
    ],
)
def test_distributions_are_padded_in_buckets(sizes: list[int], buckets: tuple[tuple[int, int], ...]) -> None:
    segments = Segments.of(sizes)
    assert segments.buckets == buckets
    assert len(segments.bucketed) <= 2 * sum(sizes)
    assert segments.bucketed[segments.is_bucketed_real].tolist() == list(range(sum(sizes)))


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e30])
@pytest.mark.parametrize("sizes", [[2, 3, 4], [2, 2, 50], [50, 2, 2], [3]])
def test_chosen_entries_are_those_of_each_distribution(sizes: list[int], scale: float) -> None:
    """Against one softmax after the other, with gradient: legal and illegal entries, and distributions with one legal
    entry."""
    generator = torch.Generator().manual_seed(0)
    n_rows, segments = 7, Segments.of(sizes)
    logits = (scale * torch.randn(n_rows, sum(sizes), generator=generator, dtype=torch.float64)).requires_grad_()
    columns, expected = torch.zeros(sum(sizes), n_rows, dtype=torch.float64), []
    for h, size in enumerate(sizes):
        first = sum(sizes[:h])
        for b in range(n_rows):
            choice = int(torch.randint(size, (), generator=generator))
            legal = torch.rand(size, generator=generator) < (0.0 if (b + h) % 3 == 0 else 0.7)
            legal[choice] = True
            log_p = torch.log_softmax(logits[b, first : first + size][legal], 0)
            expected += [log_p[int(legal[:choice].sum())], -(log_p.exp() * log_p).sum()]
            columns[first : first + size, b] = legal.double()
            columns[first + choice, b] = 2.0
    status = torch.where(segments.is_bucketed_real[:, None], columns[segments.bucketed], 0.0)
    found = torch.stack(math_segments.chosen(logits, status, segments), -1).flatten()
    torch.testing.assert_close(found, torch.stack(expected))
    weights = torch.randn(len(found), generator=generator, dtype=torch.float64)
    own, other = (torch.autograd.grad((weights * x).sum(), logits)[0] for x in (found, torch.stack(expected)))
    torch.testing.assert_close(own, other)


def test_no_distributions_have_no_entries() -> None:
    found = math_segments.chosen(torch.zeros(4, 0), torch.zeros(0, 4), Segments.of([]))
    assert [x.shape for x in found] == [(0, 4), (0, 4)]


def test_without_their_gradient_entropies_are_the_same() -> None:
    segments, logits = Segments.of([2, 3]), torch.randn(4, 5, requires_grad=True)
    status = torch.tensor([1.0, 2.0, 0.0, 2.0, 1.0, 0.0])[segments.is_bucketed_real.cumsum(0) - 1, None].expand(-1, 4)
    status = torch.where(segments.is_bucketed_real[:, None], status, 0.0)
    log_prob, entropy = math_segments.chosen(logits, status, segments)
    same_log_prob, constant = math_segments.chosen(logits, status, segments, entropy_gradient=False)
    assert torch.equal(log_prob, same_log_prob)
    assert torch.equal(entropy, constant)
    assert not constant.requires_grad
    assert same_log_prob.requires_grad
