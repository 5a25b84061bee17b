from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reference import masking as slow
from reference.layouts import QUICK, flags, generator, normal, seeds
from surefoot.math.masking import masked_entropy, masked_log_softmax, normalized_entropy


@QUICK
@given(seeds, st.integers(1, 8), st.sampled_from([0.1, 3.0, 300.0]), st.sampled_from([0.0, 0.3, 0.7]))
def test_masked_distribution_equals_the_distribution_over_legal_actions(
    seed: int, k: int, scale: float, illegal: float
) -> None:
    rng = generator(seed)
    logits, mask = normal(rng, 5, k, scale=scale), ~flags(rng, 5, k, probability=illegal)
    mask[:, 0] = True

    log_probs = masked_log_softmax(torch.where(mask, logits, torch.nan), mask)
    entropy, share = masked_entropy(log_probs, mask), normalized_entropy(log_probs, mask)

    assert bool(torch.isfinite(log_probs).all())
    for row in range(5):
        expected = slow.probabilities(logits[row].tolist(), mask[row].tolist())
        torch.testing.assert_close(log_probs[row].exp(), torch.tensor(expected), rtol=1e-4, atol=1e-7)
        assert bool((log_probs[row].exp()[~mask[row]] == 0).all())
        h, n_legal = slow.entropy(expected), int(mask[row].sum())
        assert float(entropy[row]) == pytest.approx(h, rel=1e-4, abs=1e-5)
        assert float(share[row]) == pytest.approx(h / math.log(n_legal) if n_legal > 1 else 0.0, rel=1e-4, abs=1e-5)
