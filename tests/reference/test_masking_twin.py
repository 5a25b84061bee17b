from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import masking as slow
from reference.layouts import QUICK, flags, generator, normal, seeds
from surefoot.math.masking import masked_entropy, masked_log_softmax


@QUICK
@given(seeds, st.integers(1, 8), st.sampled_from([0.1, 3.0, 300.0]), st.sampled_from([0.0, 0.3, 0.7]))
def test_masked_distribution_equals_the_distribution_over_legal_actions(
    seed: int, k: int, scale: float, illegal: float
) -> None:
    rng = generator(seed)
    logits, mask = normal(rng, 5, k, scale=scale), ~flags(rng, 5, k, probability=illegal)
    mask[:, 0] = True

    log_probs = masked_log_softmax(torch.where(mask, logits, torch.nan), mask)
    entropy = masked_entropy(log_probs, mask)

    assert bool(torch.isfinite(log_probs).all())
    for row in range(5):
        expected = slow.probabilities(logits[row].tolist(), mask[row].tolist())
        torch.testing.assert_close(log_probs[row].exp(), torch.tensor(expected), rtol=1e-4, atol=1e-7)
        assert bool((log_probs[row].exp()[~mask[row]] == 0).all())
        assert float(entropy[row]) == pytest.approx(slow.entropy(expected), rel=1e-4, abs=1e-5)
