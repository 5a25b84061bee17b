"""Heads that depend on each other: the joint distribution against an enumeration of everything that can happen (F02,
F05)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from surefoot.actions.distribution import Family, HeadTerms
from surefoot.actions.heads import HeadSpec
from surefoot.actions.masks import MaskForm
from surefoot.actions.registry import family_for
from surefoot.errors import ConfigError, UnsupportedSpaceError
from surefoot.math.segments import Segments

B = 4
OPS = ("WAIT", "GERMINATE", "PRUNE")
Choice = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """Heads, when they are active (written out again, as code), and whose choice decides the mask of each."""

    heads: tuple[HeadSpec, ...]
    sizes: tuple[int, ...]
    active: Any
    given: tuple[int | None, ...]

    def family(self) -> Family:
        return family_for(spaces.MultiDiscrete(list(self.sizes)), heads=self.heads)

    def classes(self) -> Iterator[Choice]:
        """Every action that can be stored: inactive heads at 0."""
        for choice in itertools.product(*map(range, self.sizes)):
            if all(is_active or entry == 0 for is_active, entry in zip(self.active(*choice), choice, strict=True)):
                yield choice


CASES = {
    "operation, slot, kind": Case(
        (
            HeadSpec("op", OPS),
            HeadSpec("slot", 3, relevant_when={"op": ("GERMINATE", "PRUNE")}),
            HeadSpec("kind", 2, relevant_when={"op": "GERMINATE"}),
        ),
        (3, 3, 2),
        lambda op, slot, kind: (True, op in (1, 2), op == 1),
        (None, 0, 0),
    ),
    "a chain": Case(
        (
            HeadSpec("a", 2),
            HeadSpec("b", 3, relevant_when={"a": 1}),
            HeadSpec("c", 2, relevant_when={"b": (0, 2)}),
        ),
        (2, 3, 2),
        lambda a, b, c: (True, a == 1, a == 1 and b in (0, 2)),
        (None, 0, 1),
    ),
    "two conditions, declared before their causes": Case(
        (
            HeadSpec("both", 2, relevant_when={"x": 0, "y": (1, 2)}),
            HeadSpec("x", 2),
            HeadSpec("y", 3, relevant_when={"x": 0}),
            HeadSpec("free", 2),
        ),
        (2, 2, 3, 2),
        lambda both, x, y, free: (x == 0 and y in (1, 2), True, x == 0, True),
        (1, None, 1, 1),
    ),
    "independent": Case(
        (HeadSpec("left", 3), HeadSpec("right", 2)), (3, 2), lambda left, right: (True, True), (None, 0)
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
every_form = pytest.mark.parametrize("form", ["none", "flat", "conditional"])


def masks_of(case: Case, form: str, seed: int = 0) -> dict[str, np.ndarray[Any, Any]] | None:
    """Random masks by head, with at least one legal choice everywhere: [B, n], or [B, n_given, n]."""
    if form == "none":
        return None
    rng = np.random.default_rng(seed)
    found = {}
    for head, size, given in zip(case.heads, case.sizes, case.given, strict=True):
        parent_actions = () if form == "flat" or given is None else (case.sizes[given],)
        mask = rng.random((B, *parent_actions, size)) < 0.6
        mask[..., rng.integers(size)] = True
        found[head.name] = mask
    return found


def flat_row(case: Case, masks: Any) -> Tensor | None:
    form = MaskForm.of(spaces.MultiDiscrete(list(case.sizes)), case.heads)
    return None if masks is None else torch.from_numpy(form.read(masks, B, "the test"))


def logits(seed: int, case: Case) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(B, sum(case.sizes), generator=generator, dtype=torch.float64)


def no_log_prob(family: Family, action: Tensor) -> Tensor:
    return torch.zeros(len(action), len(family.head_names))


def terms_of(family: Family, params: Tensor, row: Tensor | None, action: Tensor, joint: bool = True) -> HeadTerms:
    """By head, as an update asks for them with or without a bonus for the joint entropy; with rows first, [B, A]."""
    statistics = family.head_statistics(action, row, no_log_prob(family, action), joint)
    found = family.bind(params, statistics.mask).heads(action, statistics.packed, joint)
    return HeadTerms(*(x.t() for x in found))


def brute_force(case: Case, params: Tensor, masks: Any) -> dict[Choice, list[float]]:
    """ln p of every action that can be stored, for each row, from the definition."""
    first = np.cumsum(case.sizes) - case.sizes
    table: dict[Choice, list[float]] = {}
    for choice in case.classes():
        is_active = case.active(*choice)
        table[choice] = []
        for row in range(B):
            total = 0.0
            for h, size in enumerate(case.sizes):
                if not is_active[h]:
                    continue
                legal = np.ones(size, bool)
                if masks is not None:
                    mask = masks[case.heads[h].name][row]
                    given = case.given[h]
                    legal = mask if mask.ndim == 1 else mask[choice[given if given is not None else 0]]
                weights = np.exp(params[row, first[h] : first[h] + size].numpy()) * legal
                share = weights[choice[h]] / weights.sum()
                total += math.log(share) if share > 0 else -math.inf
            table[choice].append(total)
    return table


@every_case
@every_form
def test_the_joint_distribution_is_the_product_over_active_heads(case: Case, form: str) -> None:
    params, masks = logits(0, case), masks_of(case, form)
    distribution = brute_force(case, params, masks)
    dist = case.family().bind(params, flat_row(case, masks))
    got = torch.stack([dist.log_prob(torch.tensor(choice).expand(B, -1)) for choice in distribution])
    expected = torch.tensor(list(distribution.values()), dtype=torch.float64)
    torch.testing.assert_close(got.exp(), expected.exp(), rtol=1e-12, atol=0)
    finite = expected.isfinite()
    torch.testing.assert_close(got[finite], expected[finite], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(got.exp().sum(0), torch.ones(B, dtype=torch.float64))


@every_case
@every_form
def test_entropy_and_divergence_are_exact(case: Case, form: str) -> None:
    params, new_params, masks = logits(0, case), logits(1, case), masks_of(case, form)
    old = torch.tensor(list(brute_force(case, params, masks).values()), dtype=torch.float64)
    new = torch.tensor(list(brute_force(case, new_params, masks).values()), dtype=torch.float64)
    happens = old.isfinite()
    family, row = case.family(), flat_row(case, masks)
    dist, other = family.bind(params, row), family.bind(new_params, row)
    entropy = -torch.where(happens, old.exp() * old, 0.0).sum(0)
    divergence = torch.where(happens, old.exp() * torch.where(happens, old - new, 0.0), 0.0).sum(0)
    torch.testing.assert_close(dist.entropy(), entropy)
    torch.testing.assert_close(dist.kl(other), divergence)
    torch.testing.assert_close(dist.kl(dist), torch.zeros(B, dtype=torch.float64))


@every_case
@every_form
def test_divergence_is_never_below_zero(case: Case, form: str) -> None:
    """In float32, for steps down to those that rounding swallows; its gradient is finite."""
    row, family = flat_row(case, masks_of(case, form)), case.family()
    for seed, size in itertools.product(range(10), (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)):
        params = 3.0 * logits(seed, case).float()
        moved = (params + size * logits(seed + 100, case).float()).requires_grad_()
        divergence = family.bind(params, row).kl(family.bind(moved, row))
        assert (divergence >= 0).all(), f"steps of {size:g}"
        (gradient,) = torch.autograd.grad(divergence.sum(), moved)
        assert gradient.isfinite().all()


@every_case
@every_form
def test_the_gradient_of_the_entropy_is_that_of_the_enumeration(case: Case, form: str) -> None:
    params, masks = logits(0, case).requires_grad_(), masks_of(case, form)
    dist = case.family().bind(params, flat_row(case, masks))
    (got,) = torch.autograd.grad(dist.entropy().sum(), params, retain_graph=True)
    table = torch.stack([dist.log_prob(torch.tensor(choice).expand(B, -1)) for choice in case.classes()])
    happening = torch.where(table.detach().exp() > 0, table, 0.0)
    (expected,) = torch.autograd.grad(-(happening.exp() * happening).sum(), params)
    torch.testing.assert_close(got, expected)


@every_case
@every_form
def test_terms_by_head_add_up_to_the_joint_ones(case: Case, form: str) -> None:
    """The entropies given the choices made have the joint entropy as their mean: the chain rule. The expected ones add
    up to it whatever was chosen."""
    params, family, row = logits(0, case), case.family(), flat_row(case, masks_of(case, form))
    dist = family.bind(params, row)
    mean = torch.zeros(B, dtype=torch.float64)
    for choice in case.classes():
        action = torch.tensor(choice).expand(B, -1)
        terms = terms_of(family, params, row, action)
        torch.testing.assert_close(terms.expected_entropy.sum(-1), dist.entropy())
        apart = terms_of(family, params, row, action, joint=False)
        torch.testing.assert_close(apart.log_prob, terms.log_prob)
        torch.testing.assert_close(apart.entropy, terms.entropy)
        torch.testing.assert_close(terms.log_prob, dist.head_log_prob(action))
        torch.testing.assert_close(terms.log_prob.sum(-1), dist.log_prob(action))
        active = family.head_statistics(action, row, no_log_prob(family, action)).active.t()
        assert active.tolist() == [list(case.active(*choice))] * B
        inactive = ~active
        assert (terms.log_prob[inactive] == 0).all()
        assert (terms.entropy[inactive] == 0).all()
        mean += dist.log_prob(action).exp() * terms.entropy.sum(-1)
    torch.testing.assert_close(mean, dist.entropy())


def expected_entropies(case: Case, params: Tensor, masks: Any) -> Tensor:
    """Σ_a p(a)·active(h, a)·H(h | a) of each head [B, H], over every action that can be stored, by the definition."""
    first = np.cumsum(case.sizes) - case.sizes
    total = torch.zeros(B, len(case.sizes), dtype=params.dtype)
    for choice in case.classes():
        is_active = case.active(*choice)
        for row in range(B):
            p, entropies = torch.ones((), dtype=params.dtype), [torch.zeros((), dtype=params.dtype)] * len(case.sizes)
            for h, size in enumerate(case.sizes):
                if is_active[h]:
                    mask = np.ones(size, bool) if masks is None else masks[case.heads[h].name][row]
                    mask = mask if mask.ndim == 1 else mask[choice[case.given[h] or 0]]
                    distribution = torch.softmax(params[row, first[h] : first[h] + size][mask], 0)
                    entropies[h] = -(distribution * distribution.log()).sum()
                    legal = np.flatnonzero(mask).tolist()
                    p = p * (distribution[legal.index(choice[h])] if choice[h] in legal else 0.0)
            total[row] = total[row] + p * torch.stack(entropies)
    return total


@every_case
@every_form
def test_the_bonus_of_each_head_is_that_of_the_enumeration_and_so_is_its_gradient(case: Case, form: str) -> None:
    """P13: with coefficients by head, and the gradient flows into the heads that decide about relevance."""
    masks = masks_of(case, form)
    row, family = flat_row(case, masks), case.family()
    coefficients = torch.tensor([0.7, 0.1, 2.0, 0.4], dtype=torch.float64)[: len(case.sizes)]
    params = logits(0, case).requires_grad_()
    expected = expected_entropies(case, params, masks)
    (expected_gradient,) = torch.autograd.grad((expected @ coefficients).sum(), params)
    for seed in range(3):
        action = family.bind(params.detach(), row).sample(torch.Generator().manual_seed(seed))
        got = terms_of(family, params, row, action).expected_entropy
        torch.testing.assert_close(got, expected)
        (gradient,) = torch.autograd.grad((got @ coefficients).sum(), params)
        torch.testing.assert_close(gradient, expected_gradient)


@every_case
@every_form
def test_samples_are_stored_actions_and_follow_the_distribution(case: Case, form: str) -> None:
    n = 20_000
    params, masks = logits(0, case)[:1], masks_of(case, form)
    row = flat_row(case, masks)
    mask = None if row is None else row[:1].expand(n, -1)
    drawn = case.family().bind(params.expand(n, -1), mask).sample(torch.Generator().manual_seed(0))
    distribution = brute_force(case, params.expand(B, -1), masks)
    counts = dict.fromkeys(distribution, 0)
    for choice, count in zip(*np.unique(drawn.numpy(), axis=0, return_counts=True), strict=True):
        counts[tuple(int(c) for c in choice)] = int(count)  # an action that cannot be stored would be a KeyError
    assert sum(counts.values()) == n
    for choice, log_probs in distribution.items():
        p = math.exp(log_probs[0])
        assert abs(counts[choice] / n - p) <= 5 * math.sqrt(p * (1 - p) / n) + 1e-12


@every_form
def test_the_mode_chooses_head_by_head(form: str) -> None:
    """The most likely operation, then its most likely slot; not the most likely pair, which would be to wait."""
    case = CASES["operation, slot, kind"]
    params = torch.log(torch.tensor([[0.4, 0.6, 1e-9, 0.34, 0.33, 0.33, 0.5, 0.4]], dtype=torch.float64)).expand(B, -1)
    masks = masks_of(case, form)
    if masks is not None:
        masks = {name: np.ones_like(mask) for name, mask in masks.items()}
        masks["slot"][..., 0] = False
    mode = case.family().bind(params, flat_row(case, masks)).mode()
    assert mode.tolist() == [[1, 0 if form == "none" else 1, 0]] * B


@every_case
@every_form
def test_an_inactive_head_gets_exactly_no_gradient(case: Case, form: str) -> None:
    first = np.cumsum(case.sizes) - case.sizes
    masks = masks_of(case, form)
    for choice in case.classes():
        params = logits(0, case).requires_grad_()
        for joint in (False, True):
            action = torch.tensor(choice).expand(B, -1)
            terms = terms_of(case.family(), params, flat_row(case, masks), action, joint)
            (gradient,) = torch.autograd.grad(terms.log_prob.sum(), params)
            assert gradient.isfinite().all()
            for h, (is_active, size) in enumerate(zip(case.active(*choice), case.sizes, strict=True)):
                own = gradient[:, first[h] : first[h] + size]
                assert is_active or (own == 0).all()


@every_case
@every_form
def test_the_status_says_what_was_legal_and_what_was_chosen(case: Case, form: str) -> None:
    """Without a joint entropy: of a conditional mask, what was in force; of an inactive head one choice, as if
    legal."""
    family, masks = case.family(), masks_of(case, form)
    row = flat_row(case, masks)
    first = np.cumsum(case.sizes) - case.sizes
    segments = Segments.of(case.sizes)
    for choice in case.classes():
        action = torch.tensor(choice).expand(B, -1)
        statistics = family.head_statistics(action, row, no_log_prob(family, action), joint_entropy=False)
        assert statistics.mask is None
        status = statistics.packed.status
        assert status.shape == (len(segments.bucketed), B)
        assert (status[~segments.is_bucketed_real] == 0).all()
        status = status[segments.is_bucketed_real]
        assert len(status) == sum(case.sizes)
        assert statistics.packed.active.shape == (0, B)
        for b, (h, size) in itertools.product(range(B), enumerate(case.sizes)):
            legal = np.ones(size) if masks is None else masks[case.heads[h].name][b]
            given = case.given[h]
            if legal.ndim == 2 and given is not None:
                legal = legal[choice[given]]
            assert statistics.n_legal[h, b] == legal.sum()
            is_active = bool(statistics.active[h, b])
            expected = legal.astype(float) * is_active
            expected[choice[h]] = 2.0 if legal[choice[h]] or not is_active else -2.0
            assert status[first[h] : first[h] + size, b].tolist() == expected.tolist()


def test_a_head_that_is_never_active_may_have_no_legal_choice() -> None:
    """PRUNE is illegal and GERMINATE too: what their slots are does not matter, and nothing becomes NaN."""
    case = CASES["operation, slot, kind"]
    for conditional in (False, True):
        params = logits(0, case).requires_grad_()
        nothing = np.zeros((B, 3, 3) if conditional else (B, 3), bool)
        row = flat_row(case, {"op": np.tile([True, False, False], (B, 1)), "slot": nothing})
        assert row is not None
        family = case.family()
        assert family.dead_end(row.numpy()) is None
        dist = family.bind(params, row)
        assert dist.sample(None).tolist() == [[0, 0, 0]] * B
        total = dist.entropy().sum() + dist.kl(dist).sum()
        for joint in (False, True):
            terms = terms_of(family, params, row, torch.zeros(B, 3, dtype=torch.int64), joint)
            total = total + sum(x.sum() for x in terms)
        assert total.item() == 0.0
        (gradient,) = torch.autograd.grad(total, params)
        assert (gradient == 0).all()


@pytest.mark.parametrize(
    ("masks", "head"),
    [
        ({"op": [False, False, False]}, "'op'"),
        ({"slot": [False, False, False]}, "'slot' given op = GERMINATE"),
        ({"op": [True, False, True], "slot": [False, False, False]}, "'slot' given op = PRUNE"),
        ({"slot": [[True] * 3, [True] * 3, [False] * 3]}, "'slot' given op = PRUNE"),
        ({"op": [False, True, True], "kind": [[False] * 2, [False] * 2, [True] * 2]}, "'kind' given op = GERMINATE"),
    ],
)
def test_a_head_without_a_legal_choice_is_named_with_what_makes_it_active(masks: Any, head: str) -> None:
    case = CASES["operation, slot, kind"]
    every = {name: np.ones((B, *np.shape(mask)), bool) for name, mask in masks.items()}
    for name, mask in masks.items():
        every[name][2] = mask
    row = flat_row(case, every)
    assert row is not None
    assert case.family().dead_end(row.numpy()) == (2, head)


def test_a_condition_that_masks_rule_out_is_no_dead_end() -> None:
    case = CASES["a chain"]
    masks = {"a": np.array([[True, False]] * B), "b": np.zeros((B, 3), bool), "c": np.zeros((B, 2), bool)}
    row = flat_row(case, masks)
    assert row is not None
    assert case.family().dead_end(row.numpy()) is None


@every_case
@every_form
def test_compiled_equals_eager(case: Case, form: str) -> None:
    family, row = case.family(), flat_row(case, masks_of(case, form))
    params, new_params = logits(0, case).float(), logits(1, case).float()
    action = family.bind(params, row).sample(torch.Generator().manual_seed(0))

    packed = family.head_statistics(action, row, no_log_prob(family, action)).packed

    def numbers(params: Tensor, new_params: Tensor) -> tuple[Tensor, ...]:
        dist = family.bind(params, row)
        other = family.bind(new_params, row)
        terms = dist.heads(action, packed)
        return *terms, dist.log_prob(action), dist.entropy(), dist.kl(other), dist.mode()

    # As it is recorded for the compiler, which refuses decisions that depend on numbers; and then for other numbers.
    compiled = make_fx(numbers)(params, new_params)
    given = new_params, params
    for got, expected in zip(compiled(*given), numbers(*given), strict=True):
        assert torch.equal(got, expected)


@pytest.mark.parametrize("extreme", [1e3, 1e30])
@every_form
def test_extreme_logits_stay_finite(form: str, extreme: float) -> None:
    """Also where the logits of one head are far above those of another."""
    case = CASES["operation, slot, kind"]
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0, -1.0, 1.0, 1.0, -1.0])
    params = (extreme * sign).expand(B, -1).clone().requires_grad_()
    row = flat_row(case, masks_of(case, form))
    dist = case.family().bind(params, row)
    action = case.family().bind(torch.zeros(B, 8), row).sample(torch.Generator().manual_seed(0))
    terms = terms_of(case.family(), params, row, action)
    apart = terms_of(case.family(), params, row, action, joint=False)
    for value in (dist.log_prob(action), dist.entropy(), terms.log_prob, terms.expected_entropy, *apart[:1]):
        assert value.isfinite().all()
        (gradient,) = torch.autograd.grad(value.sum(), params, retain_graph=True)
        assert gradient.isfinite().all()


def test_illegal_logits_have_no_influence_whatever_they_hold() -> None:
    case = CASES["operation, slot, kind"]
    params = logits(0, case)
    masks = {"op": np.array([[True, False, True]] * B), "slot": np.array([[True, True, False]] * B)}
    row = flat_row(case, masks)
    dist = case.family().bind(params, row)
    broken = params.clone()
    broken[:, [1, 5]] = torch.nan
    broken.requires_grad_()
    other = case.family().bind(broken, row)
    action = torch.tensor([[2, 1, 0]]).expand(B, -1)
    torch.testing.assert_close(other.log_prob(action), dist.log_prob(action))
    torch.testing.assert_close(other.entropy(), dist.entropy())
    total = other.log_prob(action).sum()
    for joint in (False, True):
        terms = terms_of(case.family(), broken, row, action, joint)
        torch.testing.assert_close(terms.log_prob, dist.head_log_prob(action))
        total = total + terms.log_prob.sum() + terms.expected_entropy.sum()
    (gradient,) = torch.autograd.grad(total, broken)
    assert gradient.isfinite().all()
    assert (gradient[:, [1, 5]] == 0).all()


MIXED = spaces.Dict(
    {
        "op": spaces.Discrete(3, start=1),
        "amount": spaces.Box(np.float32(2.0), np.float32(3.0), (2,)),
        "bits": spaces.MultiBinary(2),
        "pair": spaces.MultiDiscrete([2, 3]),
    }
)
MIXED_HEADS = (
    HeadSpec("op", ("HOLD", "BUY", "SELL")),
    HeadSpec("amount", relevant_when={"op": ("BUY", "SELL")}),
    HeadSpec("pair/1", relevant_when={"op": "SELL"}),
)


@pytest.mark.parametrize("kind", ["gaussian", "tanh_gaussian", "beta"])
def test_choices_and_numbers_mix(kind: Any) -> None:
    family = family_for(MIXED, kind, heads=MIXED_HEADS)
    assert family.head_names == ("op", "pair/1", "pair/0", "amount", "bits")
    params = torch.randn(200, family.n_parameters, generator=torch.Generator().manual_seed(0)).requires_grad_()
    dist = family.bind(params)
    action = dist.sample(torch.Generator().manual_seed(1)).detach()
    terms = terms_of(family, params, None, action)
    op = action[:, 0]
    statistics = family.head_statistics(action, None, no_log_prob(family, action))
    assert torch.equal(statistics.active[3], op > 0)
    assert torch.equal(statistics.active[1], op == 2)
    assert (terms.log_prob[~statistics.active.t()] == 0).all()
    assert (terms.entropy[~statistics.active.t()] == 0).all()
    assert statistics.n_legal[:, 0].tolist() == [3, 3, 2, 0, 0]
    torch.testing.assert_close(terms.log_prob, dist.head_log_prob(action))
    torch.testing.assert_close(terms.log_prob.sum(-1), dist.log_prob(action))
    torch.testing.assert_close(terms.expected_entropy.sum(-1), dist.entropy())
    (bonus,) = torch.autograd.grad(terms.expected_entropy.sum(), params, retain_graph=True)
    (exact,) = torch.autograd.grad(dist.entropy().sum(), params, retain_graph=True)
    torch.testing.assert_close(bonus, exact)
    (gradient,) = torch.autograd.grad(terms.log_prob.sum(), params)
    assert gradient.isfinite().all()
    amount = gradient[:, family.head_outputs[3]]
    assert (amount[op == 0] == 0).all()
    assert (amount[op > 0] != 0).any()
    env_actions = family.to_env(action.numpy())
    for i in range(200):
        assert MIXED.contains({name: part[i] for name, part in env_actions.items()})
    assert (env_actions["op"] == op.numpy() + 1).all()
    assert np.unique(env_actions["amount"][op.numpy() == 0]).size == 1


def test_mixed_entropy_is_the_mean_surprise() -> None:
    n = 40_000
    family = family_for(MIXED, heads=MIXED_HEADS)
    params = torch.randn(1, family.n_outputs + 2, generator=torch.Generator().manual_seed(0)).expand(n, -1)
    new = family.bind(params + 0.1)
    dist = family.bind(params)
    action = dist.sample(torch.Generator().manual_seed(1))
    surprise = -dist.log_prob(action)
    assert abs(surprise.mean() - dist.entropy()[0]) < 5 * surprise.std() / n**0.5
    log_ratio = dist.log_prob(action) - new.log_prob(action)
    assert abs(log_ratio.mean() - dist.kl(new)[0]) < 5 * log_ratio.std() / n**0.5


@pytest.mark.parametrize(
    "space",
    [
        spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 1, (2,)), spaces.Dict({"deep": spaces.Discrete(3)}))),
        spaces.Dict({"b": spaces.MultiBinary(3), "a": spaces.Discrete(2, start=5)}),
        spaces.Dict({"only": spaces.Box(-1, 1, (1,))}),
        spaces.Tuple((spaces.MultiDiscrete(np.array([[2, 3], [1, 2]])),)),
    ],
    ids=str,
)
def test_nested_spaces_have_heads_of_their_own(space: spaces.Space[Any]) -> None:
    family = family_for(space)
    dist = family.bind(torch.randn(50, family.n_parameters, generator=torch.Generator().manual_seed(0)))
    action = dist.sample(torch.Generator().manual_seed(1))
    assert action.shape == (50, *family.action_shape)
    assert action.dtype == family.action_dtype
    batch = family.to_env(action.numpy())
    for i in range(50):
        row = {k: v[i] for k, v in batch.items()} if isinstance(batch, dict) else tuple(_row(part, i) for part in batch)
        assert space.contains(row)
    assert family.head_statistics(action, None, no_log_prob(family, action)).active.all()


def _row(part: Any, i: int) -> Any:
    return {k: v[i] for k, v in part.items()} if isinstance(part, dict) else part[i]


def test_options_for_a_box_reach_the_boxes_and_are_refused_without_one() -> None:
    space = spaces.Dict({"a": spaces.Discrete(2), "x": spaces.Box(-1, 1, (2,))})
    log_std = family_for(space, "gaussian", log_std_init=-1.0).state_independent
    assert log_std is not None
    assert log_std.tolist() == [-1.0, -1.0]
    only_choices = spaces.Dict({"a": spaces.Discrete(2)})
    refused: list[dict[str, Any]] = [{"kind": "beta"}, {"log_std_init": -1.0}, {"state_dependent_std": True}]
    for options in refused:
        with pytest.raises(ConfigError, match="no effect"):
            family_for(only_choices, **options)


def test_a_mask_for_numbers_only_is_refused() -> None:
    family = family_for(spaces.Dict({"x": spaces.Box(-1, 1, (2,))}))
    with pytest.raises(UnsupportedSpaceError, match="takes no action mask"):
        family.bind(torch.zeros(1, 4), torch.ones(1, 4, dtype=torch.bool))


def test_too_many_joint_choices_are_refused() -> None:
    heads = [HeadSpec("0", 10)] + [HeadSpec(str(i), 10, relevant_when={str(i - 1): 0}) for i in range(1, 6)]
    with pytest.raises(ConfigError, match="100000 joint choices"):
        family_for(spaces.MultiDiscrete([10] * 6), heads=heads)
