"""Whether a critic's quantiles are where its returns are (R05)."""

from __future__ import annotations

import warnings

from torch import Tensor

from surefoot.critics.base import Critic
from surefoot.errors import SurefootWarning

LEVELS = (0.05, 0.25, 0.75, 0.95)


def quantile_spread(critic: Critic, prediction: Tensor, valid: Tensor) -> dict[str, float]:
    """How wide the predicted distributions [T, N, K] are: from the 5 % to the 95 % quantile, in the mean."""
    prediction = prediction[valid]
    if not len(prediction):
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SurefootWarning)  # few quantiles make the outer levels a guess
        width = critic.quantile(prediction, LEVELS[-1]) - critic.quantile(prediction, LEVELS[0])
    return {"train/quantile_spread": float(width.mean())}


def coverage(critic: Critic, prediction: Tensor, returns: Tensor, valid: Tensor) -> dict[str, float]:
    """Share of the returns that do not exceed the predicted quantile of each level; the level itself is ideal.

    Predictions [T, N, K], returns and valid [T, N]. The returns are to be those of finished episodes, without any
    prediction in them: beside λ-returns every critic looks better than it is, or too wide.
    """
    prediction, returns = prediction[valid], returns[valid]
    count = returns.numel()
    if not count:
        return {}
    found = {}
    with warnings.catch_warnings():
        # Few quantiles make the outer levels a guess, and that shows in the figure itself.
        warnings.simplefilter("ignore", SurefootWarning)
        for level in LEVELS:
            within = returns <= critic.quantile(prediction, level)
            found[f"risk/coverage_{round(100 * level):02d}"] = int(within.sum()) / count
    return found
