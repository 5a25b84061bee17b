"""The loss of critics by torch's compiler."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from critics.cases import Case, everything, features, grid, targets_of
from surefoot.fast.decision import has_compiler


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
@pytest.mark.skipif(not has_compiler(), reason="needs a C++ compiler")
@pytest.mark.parametrize(
    "critic",
    [
        {"kind": "quantile", "popart": True, "clip_mode": "mean_and_variance"},
        {"kind": "categorical", "clip_mode": "mean_only"},
    ],
    ids=["quantile", "categorical"],
)
def test_machine_code_gives_the_same_loss_and_gradient(critic: dict[str, Any]) -> None:
    torch._dynamo.reset()
    case = Case(critic, clips=True)
    built = case.build()
    built.update_statistics(grid(), everything())
    old, wanted = built(features(5)).detach(), targets_of(built)

    def mean_loss(seen: torch.Tensor) -> torch.Tensor:
        return built.loss(built(seen), old, wanted, case.clip_range).loss.mean()

    expected = torch.func.grad_and_value(mean_loss)(features())
    found = torch.compile(torch.func.grad_and_value(mean_loss), fullgraph=True)(features())
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
