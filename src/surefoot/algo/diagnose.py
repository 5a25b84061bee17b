"""Names the source of a non-finite gradient (O09). Runs only when there is one."""

from __future__ import annotations

from functools import partial

import torch

from surefoot.algo.batch import Batch
from surefoot.algo.coefficients import Coefficients
from surefoot.algo.loss_term import TermInputs
from surefoot.algo.objective import loss_terms
from surefoot.algo.step import EagerStep


def name_source(batch: Batch, coefficients: Coefficients, step: EagerStep, n_envs: int, first_step: int) -> str:
    """The first quantity, in the order of computation, that is not finite: what, in which env, at which step."""
    counts = batch.weight > 0
    policy = step.policy
    with torch.no_grad():
        parameters, prediction = policy(batch.observation, batch.sequences)
        distribution = step.family.bind(parameters, batch.mask)
        terms = loss_terms(distribution, prediction, batch, coefficients, policy.critic, step.config)
    suspects = {
        "old log-probability": batch.log_prob,
        "advantage": batch.advantages,
        "return": batch.returns,
        "action parameters": parameters.sum(-1),
        "value prediction": prediction.sum(-1),
        "log-ratio": terms.log_ratio,
        "policy loss": terms.policy,
        "value loss": terms.value,
        "entropy": terms.entropy,
    }
    inputs = TermInputs(
        parameters, distribution, batch, terms.log_ratio, terms.policy, terms.entropy, partial(step.forward, batch)
    )
    for term, numbers in zip(step.terms, coefficients.terms, strict=True):
        found = term(inputs, numbers, term.draw(batch.weight.shape[0]))
        suspects[term.name.replace("_", " ")] = found.loss.detach().expand_as(terms.policy)
    for what, x in suspects.items():
        bad = counts & ~torch.isfinite(x)
        if bool(bad.any()):
            i = int(torch.nonzero(bad)[0])
            t, env = divmod(int(batch.row[i]), n_envs)
            share = f" ({int(bad.sum())} rows of the minibatch)" if int(bad.sum()) > 1 else ""
            return f"{what} is {float(x[i])} in env {env} at step {first_step + t}{share}"
    step.gradient(batch, coefficients)
    for slot in step.flat.slots:
        if not bool(torch.isfinite(step.flat.gradient[slot.where]).all()):
            return f"gradient of {slot.name} is not finite"
    return "the norm of the gradient overflows"
