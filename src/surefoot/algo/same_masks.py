"""An update must see the masks under which the actions were taken (F05)."""

from __future__ import annotations

import torch

from surefoot.actions.distribution import Family
from surefoot.errors import EnvError
from surefoot.rollout.buffer import Rollout, digest

TOLERANCE = 1e-3
"""Difference of log-probabilities, relative to 1 + |ln p|, that rounding never makes."""


def require_same_masks(rollout: Rollout, family: Family) -> None:
    """Masks are those of the rollout or, if they differ, each action still has the probability with which it was
    drawn."""
    if rollout.mask is None or rollout.mask_digest == digest(rollout.mask):
        return
    drawn = rollout.log_prob.flatten()
    parameters = rollout.parameters.flatten(0, 1)
    again = family.bind(parameters, rollout.mask.flatten(0, 1)).log_prob(rollout.action.flatten(0, 1))
    # What is not finite is named by the update itself.
    comparable = rollout.valid.flatten() & drawn.isfinite() & parameters.isfinite().all(-1)
    differs = comparable & ~((again - drawn).abs() <= TOLERANCE * (1.0 + drawn.abs()))
    if bool(differs.any()):
        t, env = divmod(int(torch.nonzero(differs)[0]), rollout.n_envs)
        raise EnvError(
            f"the action mask of env {env} at step {rollout.first_step + t} is not the one under which its action was "
            f"drawn: ln p was {float(drawn[differs][0]):.4g} and would be {float(again[differs][0]):.4g}. "
            "A mask must not change between rollout and update"
        )
