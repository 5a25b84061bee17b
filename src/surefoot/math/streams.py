"""Random streams: one for each purpose, so that drawing more for one does not shift another."""

from __future__ import annotations

import numpy as np
import torch


def random_stream(seed: int, purpose: str, device: torch.device | None = None) -> torch.Generator:
    """The generator of a purpose, in a run with that seed."""
    entropy = [seed, *purpose.encode()]
    state = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator(device or "cpu").manual_seed(state)
