from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from surefoot.math import advantages, categorical, kl, masking, quantile, surrogate, value_clip

GENERATOR = torch.Generator().manual_seed(0)
X, Y, Z, OTHER = (torch.randn(6, 5, generator=GENERATOR) for _ in range(4))
MASK = torch.tensor([[True, False, True, True, False]]).expand(6, 5)
ATOMS = torch.linspace(-2.0, 2.0, 5)
CLIP = torch.tensor(0.2)


def _policy_loss(x: Tensor) -> Tensor:
    ratio = surrogate.importance_ratio(x, Y, "tanh") + surrogate.importance_ratio(x, Y, "clamp")
    return surrogate.clipped_surrogate(ratio, advantages.normalize(Z, MASK), CLIP, dual_clip=3.0)


def _clip_fraction(x: Tensor) -> Tensor:
    return surrogate.clip_fraction_indicator(x, CLIP).mean()


def _divergences(x: Tensor) -> Tensor:
    log_p, log_q = torch.log_softmax(x, -1), torch.log_softmax(Y, -1)
    exact = kl.categorical_kl(log_p, log_q) + kl.gaussian_kl(x, Y, Z, Y) + kl.bernoulli_kl(x, Y)
    return kl.k1(x).mean(-1) + kl.k2(x).mean(-1) + kl.k3(x).mean(-1) + exact


def _value_losses(x: Tensor) -> Tensor:
    scalar = value_clip.clipped_value_loss(x, Y, Z, CLIP).loss.mean(-1)
    clipped = value_clip.clip_quantiles(x, Y, CLIP, "mean_and_variance")
    return scalar + quantile.huber_loss(clipped, Z[:, 0], 0.05) + quantile.huber_loss(x, Z, 0.0)


def _categorical_critic(x: Tensor) -> Tensor:
    probs, old = torch.softmax(x, -1), torch.softmax(Y, -1)
    moved = value_clip.clip_atoms(probs, old, ATOMS, CLIP, "mean_and_variance")
    held = value_clip.clip_atoms(probs, old, ATOMS, CLIP, "per_quantile")
    projected = categorical.project(probs, moved, ATOMS) + categorical.project(probs, held, ATOMS)
    return (projected * categorical.two_hot(Z[:, 0], ATOMS)).sum(-1)


def _masked_actions(x: Tensor) -> Tensor:
    log_probs = masking.masked_log_softmax(x, MASK)
    return masking.masked_entropy(log_probs, MASK) + log_probs[:, 0]


@pytest.mark.parametrize(
    "function",
    [_policy_loss, _clip_fraction, _divergences, _value_losses, _categorical_critic, _masked_actions],
)
def test_inner_loop_functions_compile_to_one_graph_with_the_same_result(
    function: Callable[[Tensor], Tensor],
) -> None:
    """Recorded with some numbers, which refuses decisions that depend on them, and run with others."""

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.func.grad_and_value(lambda x: function(x).sum())(x)

    torch.testing.assert_close(make_fx(both)(X)(OTHER), both(OTHER))
