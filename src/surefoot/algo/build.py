"""Makes the parts of a learner from its configuration and the spaces of its environments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from surefoot.actions.distribution import Family
from surefoot.actions.heads import HeadSpec, nearest
from surefoot.actions.registry import family_for
from surefoot.algo.effects import require_effective
from surefoot.algo.loss_term import LossTerm
from surefoot.algo.loss_terms import TermContext, build_loss_terms
from surefoot.algo.step import EagerStep
from surefoot.algo.update import Updater
from surefoot.config import Config
from surefoot.config.section import changed
from surefoot.errors import ConfigError
from surefoot.math.streams import random_stream
from surefoot.optim.build import build_optimizer
from surefoot.optim.flat import FlatParameters
from surefoot.optim.optimizer import Optimizer
from surefoot.policy.own_encoder import EncoderClass, OwnEncoder
from surefoot.policy.policy import Policy, build_policy
from surefoot.risk.build import build_calibration, build_risk
from surefoot.risk.calibration import Calibration
from surefoot.risk.term import RiskTerm
from surefoot.rollout.actor import Actor
from surefoot.spaces import CONTEXT_LEAF, Layout, Leaf
from surefoot.vector.described import DescribedEnvs
from surefoot.vector.episode_context import LARGEST, EpisodeContext, n_context_columns
from surefoot.vector.interface import Envs
from surefoot.vector.masks import ObservedMasks
from surefoot.vector.normalize import ObservationNormalizer, RewardNormalizer


@dataclass(frozen=True)
class Parts:
    """What an iteration is made with; each is given what it works on, and none makes another."""

    family: Family
    policy: Policy
    flat: FlatParameters
    optimizer: Optimizer
    observations: ObservationNormalizer | None
    rewards: RewardNormalizer | None
    risk: RiskTerm | None
    calibration: Calibration | None
    context: EpisodeContext | None
    actor: Actor
    terms: tuple[LossTerm, ...]
    """What is added to PPO's own loss."""
    updater: Updater
    generators: dict[str, torch.Generator]
    """Random streams by purpose: ``act``, ``shuffle``."""


def build_parts(config: Config, envs: Envs, encoder: EncoderClass | None = None) -> Parts:
    """Freshly initialized; equal seeds give equal parts."""
    ppo, device = config.ppo, torch.device(config.device)
    init, act, shuffle = (random_stream(config.seed, stream) for stream in ("init", "act", "shuffle"))
    if device.type != "cpu":
        act = random_stream(config.seed, "act", device)
    family = action_family(envs.action_space, config, envs.action_heads)
    seen = observed_layout(envs, config)
    require_effective(config, seen)
    risk = build_risk(config.risk, envs.n_envs, ppo.gamma)
    policy = build_policy(
        policy_layout(seen, config, risk), family, config, init, encoder, None if risk is None else risk.auxiliary
    )
    if isinstance(policy.encoder, OwnEncoder):
        policy.encoder.check(policy_layout(seen, config, risk))
    policy.to(device)
    flat = FlatParameters(policy.parts())
    heads = dict(zip(family.head_names, family.head_outputs, strict=True))
    optimizer = build_optimizer(flat, config, policy.critic_parts(), heads)
    observations = None
    if ppo.normalize_observations:
        observations = ObservationNormalizer(seen, ppo.observation_clip, ppo.observation_statistics == "step")
    context = None
    if risk is not None and risk.context_discount is not None:
        context = EpisodeContext(envs.n_envs, risk.context_discount)
    shown = context if config.risk.observe_return else None
    trains = not isinstance(envs, DescribedEnvs)
    terms = build_loss_terms(TermContext(config, family, seen, envs.action_space, observations, device, trains))
    return Parts(
        family=family,
        policy=policy,
        flat=flat,
        optimizer=optimizer,
        observations=observations,
        rewards=RewardNormalizer(envs.n_envs, ppo.gamma, ppo.reward_clip) if ppo.normalize_rewards else None,
        risk=risk,
        calibration=build_calibration(config, risk, envs.n_envs),
        context=context,
        actor=Actor(policy, family, observations, observed_masks(envs, config), device, shown),
        terms=terms,
        updater=Updater(EagerStep(policy, family, flat, optimizer, ppo, terms), config, shuffle),
        generators={"act": act, "shuffle": shuffle},
    )


def action_family(space: spaces.Space[Any], config: Config, heads: tuple[HeadSpec, ...] | None = None) -> Family:
    """The action distribution of the configuration for a space; settings that it leaves without effect are refused."""
    policy, ppo = config.policy, config.ppo
    family = family_for(space, policy.distribution, policy.log_std_init, policy.state_dependent_std, heads)
    low, high = policy.std_min, policy.std_max
    if (low is not None or high is not None) and not family.bound_std(low or 0.0, math.inf if high is None else high):
        raise ConfigError("policy.std_min, policy.std_max bound the σ of Gaussian actions; the env's have none")
    for field, names in (("head_ent_coefs", ppo.head_ent_coefs), ("head_ent_coef_floors", ppo.head_ent_coef_floors)):
        unknown = next((name for name in names if name not in family.head_names), None)
        if unknown is not None:
            known = ", ".join(family.head_names)
            has = f"the heads of the env's actions are {known}" if known else "the env's actions have no heads"
            raise ConfigError(f"ppo.{field}: {has}, not {unknown!r}{nearest(unknown, family.head_names)}")
    return family


def observed_masks(envs: Envs, config: Config) -> ObservedMasks | None:
    """Where the observation holds the mask of legal actions, if it does."""
    key = config.policy.mask_key
    found = ObservedMasks.of(envs.layout, key, envs.mask_form)
    if found is None and changed(config.policy, "mask_key") and key:
        names = [leaf.name for leaf in envs.layout.leaves]
        raise ConfigError(
            f"policy.mask_key = {key!r}: no part of the observation has that key (there are {', '.join(names)}), or no "
            f"part of the action is a choice among n{nearest(key, names)}"
        )
    return found


def observed_layout(envs: Envs, config: Config) -> Layout:
    """What the networks see of the observation: all but masks."""
    masks = observed_masks(envs, config)
    return envs.layout if masks is None else envs.layout.without(masks.names)


def policy_layout(seen: Layout, config: Config, risk: RiskTerm | None) -> Layout:
    """What encoders see: the observation, and with ``risk.observe_return`` how the episode stands."""
    if not config.risk.observe_return or risk is None or risk.context_discount is None:
        return seen
    shape = (n_context_columns(risk.context_discount),)
    box = spaces.Box(-LARGEST, LARGEST, shape, np.float32)
    return Layout((*seen.leaves, Leaf(CONTEXT_LEAF, (CONTEXT_LEAF,), box, shape, np.dtype(np.float32))))
