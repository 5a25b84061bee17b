"""Whether a critic's quantiles are where its returns are (R05)."""

from __future__ import annotations

import warnings

from torch import Tensor

from surefoot.critics.base import Critic
from surefoot.errors import SurefootWarning

LEVELS = (0.05, 0.25, 0.75, 0.95)


def coverage(critic: Critic, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
    """Share of the returns that do not exceed the predicted quantile of each level; the level itself is ideal.

    Predictions [T, N, K], returns and valid [T, N]. The returns must be of the quantity that the critic predicts: a
    critic of the whole return looks too wide (shares too small below, too large above) beside λ-returns with λ < 1.
    """
    count = int(valid.sum())
    if not count:
        return {}
    found = {}
    with warnings.catch_warnings():
        # Few quantiles make the outer levels a guess, and that shows in the figure itself.
        warnings.simplefilter("ignore", SurefootWarning)
        for level in LEVELS:
            within = returns <= critic.quantile(prediction, level)
            found[f"risk/coverage_{round(100 * level):02d}"] = int((within & valid).sum()) / count
    return found
