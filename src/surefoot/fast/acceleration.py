"""Puts faster parts in the place of a learner's plain ones, at the start of training."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

from surefoot.actions.distribution import Family
from surefoot.algo.learner import Learner
from surefoot.algo.loss_term import LossTerm
from surefoot.algo.trainer_state import Compiled
from surefoot.errors import ConfigError, SurefootWarning
from surefoot.fast import normals
from surefoot.fast.compiled_step import CompiledStep
from surefoot.fast.decision import PAYING_KERNEL_STEPS, PAYING_MEMORY_ROWS, PAYING_STEPS, decide
from surefoot.fast.kernel import load_kernel
from surefoot.fast.recurrence import fits, recur
from surefoot.fast.rollout_actor import FastActor
from surefoot.optim.optimizer import Optimizer
from surefoot.optim.upgd import UPGD
from surefoot.optim.vgs import VGS
from surefoot.policy.encoder import Encoder
from surefoot.policy.policy import Policy
from surefoot.policy.recurrent import Recurrent
from surefoot.policy.side_by_side import SideBySide


def accelerate(learner: Learner, total_updates: int) -> None:
    """Act with cheaper calls; compile what pays over ``total_updates``, and what was compiled when it was saved.

    A part that is not known here (someone's own memory, encoder or distribution) runs in plain torch; with ``compile =
    true`` it is named in an error.
    """
    if not isinstance(learner.collector.rows, FastActor):
        learner.collector.rows = FastActor(learner.actor, learner.collector.rollout, learner.act_generator)
    config, policy = learner.config, learner.policy
    unknown = [*unknown_parts(policy, learner.family), *_unrecordable(learner)]
    if unknown:
        if config.compile is True:
            raise ConfigError(
                f'compile = true: {"; ".join(unknown)}. Set compile = "auto" or false, which run them in plain torch'
            )
        return
    before, now = learner.was_compiled, learner.compiled_parts
    if any(before) and _decide(learner, 1, 1):
        if before.kernel and not now.kernel:
            _use_kernel(learner)
        if before.step and not learner.compiled_parts.step:
            _compile(learner)
    learner.was_compiled = Compiled()
    per_epoch = -(-config.rollout_rows // config.batch_size)
    steps = total_updates * config.ppo.n_epochs * per_epoch
    work, paying = steps, PAYING_STEPS
    if policy.state_size:
        if learner.device.type == "cpu" and not learner.compiled_parts.kernel:
            if not _decide(learner, steps, PAYING_KERNEL_STEPS):
                return
            _use_kernel(learner)
        if not learner.compiled_parts.kernel:
            return
        work, paying = steps * config.batch_size, PAYING_MEMORY_ROWS
    if not learner.compiled_parts.step and _decide(learner, work, paying):
        _compile(learner)


def unknown_parts(policy: Policy, family: Family) -> Iterator[str]:
    """What of a policy cannot be compiled, in words."""
    if policy.autocast is not None:
        yield "networks in bfloat16 (ppo.autocast) cannot be compiled"
    encoders = {id(policy.encoder): policy.encoder, id(policy.value_encoder): policy.value_encoder}
    for encoder in encoders.values():
        inner = encoder.first if isinstance(encoder, SideBySide) else encoder
        if type(inner) is not Encoder:
            yield f"the encoder {getattr(inner, 'name', type(inner).__name__)} cannot be compiled"
    for memory in (policy.memory, policy.value_memory):
        if memory is not None and type(memory) is not Recurrent:
            yield f"the memory {type(memory).__name__} cannot be compiled"
        elif isinstance(memory, Recurrent) and not fits(memory.cell):
            yield f"a memory of width {memory.cell.hidden_size} cannot be compiled, only multiples of 8"
    for part in (family, policy.critic):
        if not type(part).__module__.startswith("surefoot."):
            yield f"{type(part).__name__} cannot be compiled"


def _unrecordable(learner: Learner) -> Iterator[str]:
    """What of the gradient step, beside the policy, does not say that it can be recorded."""
    parts: list[Optimizer | LossTerm] = [learner.optimizer, *learner.terms]
    for part in parts:
        if not part.compilable:
            yield f"{type(part).__name__} cannot be compiled, since it does not say `compilable`"


def memories(policy: Policy) -> list[Recurrent]:
    """None, the one that actor and critic share, or one for each."""
    return list({id(m): m for m in (policy.memory, policy.value_memory) if isinstance(m, Recurrent)}.values())


def _decide(learner: Learner, work: int, paying: int) -> bool:
    return decide(learner.config.compile, learner.device, work, paying)


def _use_kernel(learner: Learner) -> None:
    """Act by compiled functions, and let memories walk through time by them."""
    try:
        kernel = load_kernel()
    except Exception as error:
        if learner.config.compile is True or not learner.policy.state_size:
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        warnings.warn(f"the memory runs uncompiled: {reason}", SurefootWarning, stacklevel=2)
        return
    rows = learner.collector.rows
    assert isinstance(rows, FastActor)
    rows.kernel = kernel
    for memory in memories(learner.policy):
        memory.scan = recur
    learner.compiled_parts = learner.compiled_parts._replace(kernel=True)


def _compile(learner: Learner) -> None:
    """Compile the gradient step, and before it what it is made of."""
    if learner.device.type == "cpu" and not learner.compiled_parts.kernel:
        _use_kernel(learner)
    if learner.compiled_parts.kernel or not learner.policy.state_size:
        learner.updater.step = CompiledStep(learner.updater.step)
        learner.compiled_parts = learner.compiled_parts._replace(step=True)
        inner = learner.optimizer.inner if isinstance(learner.optimizer, VGS) else learner.optimizer
        if isinstance(inner, UPGD) and normals.fits(inner.noise):
            inner.draw = normals.fast_noise
