"""Categoricals side by side: what a reader can work out, and the corners."""

from __future__ import annotations

import math

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
    assert segments.members.sum(0).tolist() == [2, 3, 1]


def test_probabilities_by_hand() -> None:
    segments = Segments.of([2, 3])
    logits = torch.log(torch.tensor([[1.0, 3.0, 2.0, 2.0, 4.0]]))
    distributions = math_segments.normalize(logits, None, segments)
    p = math_segments.log_probs(distributions, segments).exp()
    assert p[0].tolist() == pytest.approx([0.25, 0.75, 0.25, 0.25, 0.5])
    entropy = math_segments.entropy(distributions, segments)[0].tolist()
    assert entropy == pytest.approx([0.25 * math.log(4) + 0.75 * math.log(4 / 3), 1.5 * math.log(2)])


def test_a_distribution_far_below_the_others_keeps_its_digits() -> None:
    segments = Segments.of([2, 2])
    distributions = math_segments.normalize(torch.tensor([[500.0, 501.0, -500.0, -499.0]]), None, segments)
    p = math_segments.log_probs(distributions, segments).exp()[0].tolist()
    assert p[:2] == pytest.approx(p[2:])
    assert p[0] == pytest.approx(1 / (1 + math.e))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_an_illegal_entry_has_no_probability_no_influence_and_no_gradient(dtype: torch.dtype) -> None:
    segments = Segments.of([3, 2])
    mask = torch.tensor([[True, False, True, True, False]])
    logits = torch.tensor([[0.0, torch.nan, 0.0, 5.0, torch.inf]], dtype=dtype, requires_grad=True)
    distributions = math_segments.normalize(logits, mask, segments)
    log_probs = math_segments.log_probs(distributions, segments)
    assert log_probs.isfinite().all()
    assert log_probs.exp()[0].tolist() == pytest.approx([0.5, 0.0, 0.5, 1.0, 0.0])
    entropy = math_segments.entropy(distributions, segments)
    assert entropy[0].tolist() == pytest.approx([math.log(2), 0.0], abs=1e-2)
    assert entropy[0, 1] == 0.0
    total = math_segments.log_prob(distributions, torch.tensor([[2, 0]]), segments).sum() + entropy.sum()
    (gradient,) = torch.autograd.grad(total, logits)
    assert gradient.isfinite().all()
    assert gradient[0, [1, 4]].tolist() == [0.0, 0.0]
    assert gradient[0, 3] == 0.0, "a single legal choice cannot become more likely"


def test_a_distribution_without_legal_entries_stays_finite() -> None:
    segments = Segments.of([2, 2])
    logits = torch.tensor([[1.0, 2.0, 3.0, 4.0]], requires_grad=True)
    distributions = math_segments.normalize(logits, torch.tensor([[False, False, True, True]]), segments)
    entropy = math_segments.entropy(distributions, segments)
    assert entropy[0, 0] == 0.0
    assert math_segments.log_probs(distributions, segments)[0, :2].exp().tolist() == [0.0, 0.0]
    (gradient,) = torch.autograd.grad(entropy.sum(), logits)
    assert gradient.isfinite().all()


def test_padding_is_never_drawn() -> None:
    """With noise that would make every padded entry win."""
    segments = Segments.of([1, 3])
    distributions = math_segments.normalize(torch.zeros(1, 4), None, segments)
    log_noise = torch.tensor([[[0.0, -50.0, -50.0], [0.0, -1.0, 0.0]]])
    assert math_segments.draw(distributions, segments, log_noise).tolist() == [[0, 1]]


def test_leading_axes_are_kept() -> None:
    segments = Segments.of([2, 3])
    distributions = math_segments.normalize(torch.zeros(4, 6, 5), torch.ones(4, 6, 5, dtype=torch.bool), segments)
    assert math_segments.entropy(distributions, segments).shape == (4, 6, 2)
    assert math_segments.draw(distributions, segments, None).shape == (4, 6, 2)


@pytest.mark.parametrize(
    ("sizes", "blocks"),
    [
        ([2, 3, 4], ((3, 4),)),
        ([5], ((1, 5),)),
        ([], ((0, 1),)),
        ([2, 2, 1000], ((2, 2), (1, 1000))),
        ([1000, 2, 2], ((2, 1000), (1, 2))),
        ([1, 1, 1, 1, 30, 30], ((4, 1), (2, 30))),
    ],
)
def test_distribution_are_padded_in_blocks(sizes: list[int], blocks: tuple[tuple[int, int], ...]) -> None:
    segments = Segments.of(sizes)
    assert segments.blocks == blocks
    assert len(segments.place) <= 2 * sum(sizes)
    assert segments.place[segments.is_place].tolist() == list(range(sum(sizes)))


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e30])
@pytest.mark.parametrize("sizes", [[2, 3, 4], [2, 2, 50], [50, 2, 2], [3]])
def test_chosen_entries_are_those_of_each_law(sizes: list[int], scale: float) -> None:
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
    status = torch.where(segments.is_place[:, None], columns[segments.place], 0.0)
    found = torch.stack(math_segments.chosen(logits, status, segments), -1).flatten()
    torch.testing.assert_close(found, torch.stack(expected))
    weights = torch.randn(len(found), generator=generator, dtype=torch.float64)
    own, other = (torch.autograd.grad((weights * x).sum(), logits)[0] for x in (found, torch.stack(expected)))
    torch.testing.assert_close(own, other)


def test_no_distribution_have_no_entries() -> None:
    found = math_segments.chosen(torch.zeros(4, 0), torch.zeros(0, 4), Segments.of([]))
    assert [x.shape for x in found] == [(0, 4), (0, 4)]


def test_without_their_gradient_entropies_are_the_same() -> None:
    segments, logits = Segments.of([2, 3]), torch.randn(4, 5, requires_grad=True)
    status = torch.tensor([1.0, 2.0, 0.0, 2.0, 1.0, 0.0])[segments.is_place.cumsum(0) - 1, None].expand(-1, 4)
    status = torch.where(segments.is_place[:, None], status, 0.0)
    log_prob, entropy = math_segments.chosen(logits, status, segments)
    same_log_prob, constant = math_segments.chosen(logits, status, segments, entropy_gradient=False)
    assert torch.equal(log_prob, same_log_prob)
    assert torch.equal(entropy, constant)
    assert not constant.requires_grad
    assert same_log_prob.requires_grad
