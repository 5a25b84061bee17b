"""VGS measures noise by signal of each tensor on raw gradients, and lowers its learning rate (O06)."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from algo.building import iterate, make_learner
from surefoot.config import from_flat
from surefoot.errors import ConfigError
from surefoot.optim.build import build_optimizer
from surefoot.optim.flat import FlatParameters
from surefoot.optim.vgs import VGS

YES = torch.tensor(True)


def built(alpha: float, beta: float = 0.99, optimizer: str = "adam") -> tuple[FlatParameters, VGS]:
    """Three tensors: a weight [4, 3] and a bias [4] of the part a, and a weight [1, 4] of the part b."""
    flat = FlatParameters({"a": nn.Linear(3, 4), "b": nn.Linear(4, 1, bias=False)})
    found = build_optimizer(flat, from_flat(optimizer=optimizer, vgs={"alpha": alpha, "beta": beta}), ["b"])
    assert isinstance(found, VGS)
    return flat, found


def slow_multiplier(gradients: Tensor, alpha: float, beta: float) -> float:
    """Of one tensor, gradients [T, J], element by element in Python numbers."""
    noise = signal = 0.0
    weights = [beta ** (len(gradients) - 1 - t) for t in range(len(gradients))]
    for column in gradients.T.tolist():
        mean = sum(w * g for w, g in zip(weights, column, strict=True)) / sum(weights)
        square = sum(w * g * g for w, g in zip(weights, column, strict=True)) / sum(weights)
        noise += max(square - mean**2, 0.0)
        signal += mean**2
    return 1 / (1 + alpha * noise / signal)


@pytest.mark.parametrize("allowed", [None, YES])
def test_it_equals_a_slow_twin(allowed: Tensor | None) -> None:
    flat, vgs = built(alpha=0.7, beta=0.9)
    gradients = torch.randn(30, 20, generator=torch.Generator().manual_seed(0)) + torch.linspace(-1, 1, 20)
    for gradient in gradients:
        vgs.observe(gradient, allowed)
    expected = [slow_multiplier(gradients[:, slot.where], 0.7, 0.9) for slot in flat.slots]
    assert vgs.multipliers.tolist() == pytest.approx(expected, rel=1e-4)


def test_a_constant_gradient_keeps_its_rate() -> None:
    """Also where its elements differ in sign and size: their differences are no noise."""
    _, vgs = built(alpha=10.0)
    for _ in range(200):
        vgs.observe(torch.linspace(-3.0, 5.0, 20))
    assert vgs.multipliers.tolist() == pytest.approx([1.0, 1.0, 1.0], abs=1e-4)


@pytest.mark.parametrize("size", [0.3, 1.0, 3.0])
def test_noise_around_a_mean_divides_the_rate(size: float) -> None:
    """1/(1 + α·s²/m²), in the mean over a thousand elements; m carries (1 − β)/(1 + β) of the noise."""
    flat = FlatParameters({"a": nn.Linear(1000, 1, bias=False)})
    vgs = build_optimizer(flat, from_flat(vgs={"alpha": 0.5, "beta": 0.99}), [])
    assert isinstance(vgs, VGS)
    generator = torch.Generator().manual_seed(0)
    for _ in range(600):
        vgs.observe(2.0 + size * torch.randn(1000, generator=generator))
    assert vgs.multipliers.item() == pytest.approx(1 / (1 + 0.5 * size**2 / 4.0), rel=0.02)


def test_a_gradient_that_is_always_0_keeps_its_rate() -> None:
    _, vgs = built(alpha=1.0)
    for _ in range(3):
        vgs.observe(torch.zeros(20))
    assert vgs.multipliers.tolist() == [1.0, 1.0, 1.0]


def test_only_the_noisy_tensor_moves_less() -> None:
    steps = []
    for alpha in (1.0, 1e-12):
        flat, vgs = built(alpha)
        generator = torch.Generator().manual_seed(0)
        for _ in range(50):
            gradient = torch.ones(20)
            gradient[16:] += 3.0 * torch.randn(4, generator=generator)
            vgs.observe(gradient)
            before = flat.values.clone()
            vgs.step_(flat.values, gradient, 0.1)
        steps.append((flat.values - before).abs())
    assert torch.allclose(steps[0][:16], steps[1][:16])
    noisy = [step[16:].mean().item() for step in steps]
    assert noisy[0] < 0.5 * noisy[1]


def with_heads(alpha: float) -> tuple[FlatParameters, VGS]:
    """An output layer of two features with two outputs of the head a and one of the head b; another part after it."""
    flat = FlatParameters({"output": nn.ModuleDict({"linear": nn.Linear(2, 3)}), "critic": nn.Linear(2, 1)})
    heads = {"a": slice(0, 2), "b": slice(2, 3)}
    found = build_optimizer(flat, from_flat(vgs={"alpha": alpha}), ["critic"], heads)
    assert isinstance(found, VGS)
    return flat, found


@pytest.mark.parametrize("allowed", [None, YES])
def test_heads_that_share_an_output_layer_have_multipliers_of_their_own(allowed: Tensor | None) -> None:
    """Weights of the head a are the parameters 0 to 3, of b 4 and 5, biases 6, 7 and 8, the critic 9 to 11."""
    _, vgs = with_heads(alpha=0.5)
    gradients = torch.randn(40, 12, generator=torch.Generator().manual_seed(0)) + torch.linspace(-1, 1, 12)
    for gradient in gradients:
        vgs.observe(gradient, allowed)
    pieces = [slice(0, 4), slice(4, 6), slice(6, 8), slice(8, 9), slice(9, 11), slice(11, 12)]
    expected = [slow_multiplier(gradients[:, piece], 0.5, 0.99) for piece in pieces]
    assert vgs.multipliers.tolist() == pytest.approx(expected, rel=1e-3)
    logged = vgs.metrics()
    assert logged["train/head/a/vgs_multiplier"] == pytest.approx((4 * expected[0] + 2 * expected[2]) / 6, rel=1e-3)
    assert logged["train/head/b/vgs_multiplier"] == pytest.approx((2 * expected[1] + expected[3]) / 3, rel=1e-3)


def test_noise_of_one_head_leaves_the_rate_of_the_other() -> None:
    flat, vgs = with_heads(alpha=1.0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        gradient = torch.ones(12)
        gradient[[4, 5, 8]] += 3.0 * torch.randn(3, generator=generator)
        vgs.observe(gradient)
        before = flat.values.clone()
        vgs.step_(flat.values, gradient, 0.1)
    steps = (flat.values - before).abs()
    assert steps[[0, 1, 2, 3, 6, 7, 9, 10, 11]].tolist() == pytest.approx([0.1] * 9, rel=1e-3)
    assert float(steps[[4, 5, 8]].max()) < 0.05


class TwoHeads(gymnasium.Env[Any, Any]):
    """Two choices, of two and of three."""

    observation_space = spaces.Box(0.0, 1.0, (2,))
    action_space = spaces.MultiDiscrete([2, 3])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.ones(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.ones(2, np.float32), float(action[0]), True, False, {}


def test_a_learner_says_which_outputs_are_whose_and_goes_on_bit_for_bit() -> None:
    whole, cut, resumed = (make_learner(TwoHeads, vgs={"alpha": 0.5}, seed=seed) for seed in (0, 0, 5))
    record = iterate(whole, 4, total=4)[-1]
    logged = [record.metrics[f"train/head/{head}/vgs_multiplier"] for head in whole.family.head_names]
    assert len(set(logged)) == 2
    assert all(0.0 < value < 1.0 for value in logged)
    iterate(cut, 2, total=4)
    resumed.load_state_dict(cut.state_dict())
    iterate(resumed, 2, total=4)
    assert torch.equal(whole.flat.values, resumed.flat.values)


def test_it_sees_gradients_before_they_are_clipped() -> None:
    """Clipping to a length would turn noise in size into none."""
    found = []
    for limit in (None, 1e-3):
        learner = make_learner(vgs={"alpha": 0.5}, max_grad_norm=limit, learning_rate=0.0, n_epochs=2)
        iterate(learner, 2)
        found.append(learner.optimizer.tensors()[-1])
    assert torch.equal(*found)


def test_multipliers_are_logged_by_part() -> None:
    learner = make_learner(vgs={"alpha": 0.5})
    (record,) = iterate(learner, 1)
    found = {key: value for key, value in record.metrics.items() if key.startswith("train/vgs_multiplier/")}
    assert {key.rpartition("/")[2] for key in found} == set(learner.flat.slices)
    assert all(0.0 < value < 1.0 for value in found.values())


@pytest.mark.parametrize("optimizer", ["adam", "upgd", "adaupgd"])
def test_a_saved_learner_goes_on_bit_for_bit(optimizer: str) -> None:
    settings: dict[str, Any] = {"vgs": {"alpha": 0.5}, "optimizer": optimizer}
    whole, cut, resumed = (make_learner(**settings, seed=seed) for seed in (0, 0, 5))
    iterate(whole, 4, total=4)
    iterate(cut, 2, total=4)
    resumed.load_state_dict(cut.state_dict())
    iterate(resumed, 2, total=4)
    assert torch.equal(whole.flat.values, resumed.flat.values)


def test_its_state_is_kept_by_the_name_of_the_parameter() -> None:
    """Another order of the parameters finds its own moments."""
    parts: dict[str, nn.Module] = {"a": nn.Linear(3, 4), "b": nn.Linear(4, 1)}
    one, other = FlatParameters(parts), FlatParameters(dict(reversed(list(parts.items()))))
    config = from_flat(vgs={"alpha": 0.5})
    first, second = build_optimizer(one, config, []), build_optimizer(other, config, [])
    assert isinstance(first, VGS)
    assert isinstance(second, VGS)
    first.observe(torch.arange(21.0))
    second.inner.load_state_dict = lambda saved: None  # type: ignore[method-assign] # Adam keeps one vector
    second.load_state_dict(first.state_dict())
    for slot in one.slots:
        twin = next(s for s in other.slots if s.name == slot.name)
        assert torch.equal(first.mean[slot.where], second.mean[twin.where])
    with pytest.raises(ValueError, match=r"vgs/mean/a\.weight has shape \(2,\), not \(4, 3\)"):
        second.load_state_dict(first.state_dict() | {"vgs/mean/a.weight": torch.zeros(2)})


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"vgs": {"alpha": -0.1}}, r"vgs\.alpha = -0\.1"),
        ({"vgs": {"alpha": math.nan}}, r"vgs\.alpha"),
        ({"vgs": {"alpha": 0.1, "beta": 1.0}}, r"vgs\.beta = 1\.0"),
        ({"vgs": {"beta": 0.5}}, r"vgs\.beta needs vgs\.alpha > 0"),
        ({"vgs": {"alhpa": 0.5}}, r"did you mean 'alpha'"),
        ({"upgd": {"sigma": 0.5}}, r'upgd\.sigma needs ppo\.optimizer: "upgd" or "adaupgd"'),
        ({"optimizer": "upgd", "adam_eps": 1e-8}, r"ppo\.adam_eps cannot act"),
        ({"optimizer": "upgd", "upgd": {"sigma": 0.0, "exempt_vectors": True}}, r"nothing to exempt from"),
        ({"optimizer": "upgdw"}, r"did you mean 'upgd'"),
    ],
)
def test_settings_that_cannot_act_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        from_flat(**settings)
