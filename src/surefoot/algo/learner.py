"""One learner: environments, policy, optimizer, normalizers, schedules; and the state that survives an iteration."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor

from surefoot.actions.distribution import Family
from surefoot.actions.heads import HeadSpec, nearest
from surefoot.actions.registry import family_for
from surefoot.algo.action_units import in_box_units
from surefoot.algo.coefficients import CoefficientPlan, value_at
from surefoot.algo.effects import require_effective
from surefoot.algo.estimate import estimate
from surefoot.algo.loss_terms import TermContext, build_loss_terms
from surefoot.algo.record import UpdateRecord
from surefoot.algo.same_masks import require_same_masks
from surefoot.algo.shaping import Shaping
from surefoot.algo.step import EagerStep
from surefoot.algo.update import Updater
from surefoot.config import Config
from surefoot.config.section import changed
from surefoot.errors import ConfigError, EnvError, SurefootWarning
from surefoot.math.streams import random_stream
from surefoot.optim.build import build_optimizer
from surefoot.optim.flat import FlatParameters
from surefoot.policy.own_encoder import EncoderClass, OwnEncoder
from surefoot.policy.policy import Policy, build_policy
from surefoot.risk.build import build_risk, warn_if_thin
from surefoot.rollout.actor import Actor
from surefoot.rollout.buffer import Rollout
from surefoot.rollout.collector import Collector
from surefoot.spaces import Layout
from surefoot.vector.described import DescribedEnvs
from surefoot.vector.interface import Envs
from surefoot.vector.masks import ObservedMasks
from surefoot.vector.normalize import ObservationNormalizer, RewardNormalizer


@dataclass(frozen=True)
class IterationRecord:
    """One rollout and the update made from it."""

    update: UpdateRecord
    episodes: dict[str, float]
    """Means over recent episodes."""
    metrics: dict[str, float]
    """Of the normalizers and the critic."""
    timesteps: int
    """Env steps of this rollout; reset rows are not counted."""
    seconds: float
    """Wall time of the update."""


@dataclass(frozen=True)
class TrainerState:
    """Everything that an iteration leaves behind: tensors by name, and plain values."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]
    exact: bool
    """Open episodes are included, so that a continued run equals an uninterrupted one bit for bit (Y02)."""


class Resumed(NamedTuple):
    """How the open episodes of a loaded state go on (Y08)."""

    exact: bool
    """They go on where they were; else new ones have begun."""
    reason: str
    """Why new ones have begun."""


class ScheduleSpan(NamedTuple):
    """Over which part of training schedules run (O03)."""

    timesteps: int | None = None
    """Env steps at which they reach their end values; None before the first training."""
    first_update: int = 0
    """Updates made before they began."""


class Compiled(NamedTuple):
    """What runs compiled. That of a loaded state is compiled again when training goes on, not to act."""

    kernel: bool = False
    step: bool = False


class OpenEpisodes(NamedTuple):
    """What `Collector.save` gives."""

    tensors: dict[str, Tensor]
    values: dict[str, Any]


class Phase(Enum):
    """Where an iteration stands; an exception may leave it anywhere."""

    BETWEEN = auto()
    COLLECTING = auto()
    COLLECTED = auto()
    UPDATING = auto()


ENV_TENSORS = ("rewards/running",)
"""Tensors, besides those of the collector, that depend on the number of envs."""


class Abandoned(Exception):
    """The iteration was given up half way; the learner's state is that of no checkpoint."""


class Learner:
    """Runs iterations of rollout and update."""

    def __init__(self, config: Config, envs: Envs, encoder: EncoderClass | None = None) -> None:
        self.config, self.envs = config, envs
        ppo = config.ppo
        self.device = torch.device(config.device)
        init, act, shuffle = (random_stream(config.seed, stream) for stream in ("init", "act", "shuffle"))
        act_generator = act if self.device.type == "cpu" else random_stream(config.seed, "act", self.device)
        self.family = action_family(envs.action_space, config, envs.action_heads)
        layout = observed_layout(envs, config)
        require_effective(config, layout)
        self.policy: Policy = build_policy(layout, self.family, config, init, encoder)
        if isinstance(self.policy.encoder, OwnEncoder):
            self.policy.encoder.check(layout)
        self.policy.to(self.device)
        self.flat = FlatParameters(self.policy.parts())
        self.optimizer = build_optimizer(self.flat, config, self.policy.critic_parts())
        follows = ppo.observation_statistics == "step"
        self.observations = (
            ObservationNormalizer(layout, ppo.observation_clip, follows) if ppo.normalize_observations else None
        )
        self.rewards = RewardNormalizer(envs.n_envs, ppo.gamma, ppo.reward_clip) if ppo.normalize_rewards else None
        self.actor = Actor(self.policy, self.family, self.observations, observed_masks(envs, config), self.device)
        self._collector: Collector | None = None
        self._open: OpenEpisodes | None = None
        self.resumed: Resumed | None = None
        """How the open episodes of a loaded state go on; None before any state was loaded and has envs."""
        self.risk = build_risk(config.risk, envs.n_envs, ppo.gamma)
        warn_if_thin(config)
        trains = not isinstance(envs, DescribedEnvs)
        context = TermContext(config, self.family, layout, envs.action_space, self.observations, self.device, trains)
        self.terms = build_loss_terms(context)
        step = EagerStep(self.policy, self.family, self.flat, self.optimizer, ppo, self.terms)
        self.updater = Updater(step, config, shuffle)
        self.plan = self._new_plan()
        self.interrupted: Callable[[], bool] = _never
        """Asked before each env step and each minibatch; True abandons the iteration with `Abandoned`."""
        self.act_generator = act_generator
        self._generators = {"act": act_generator, "shuffle": shuffle}
        self.timesteps = 0
        self.updates = 0
        self.schedules = ScheduleSpan()
        self.compiled_parts = self.was_compiled = Compiled()
        """What stands in for plain parts now, and what did so when a loaded state was saved."""
        self._phase = Phase.BETWEEN
        if not isinstance(envs, DescribedEnvs):
            warn_of_rest(config, stacklevel=5)
            self.attach(envs)

    @property
    def collector(self) -> Collector:
        """Steps the envs."""
        if self._collector is None:
            raise EnvError("this agent was loaded without envs and has made none yet")
        return self._collector

    def attach(self, envs: Envs, other_env: str | None = None) -> None:
        """Train in these envs. Open episodes of a loaded state go on if the envs can take them, and if it is not said
        by ``other_env`` that they are others."""
        self.envs = envs
        self._collector = Collector(
            envs,
            self.actor,
            observed_layout(envs, self.config),
            self.config.ppo.n_steps,
            self.act_generator,
            self.config.risk.cost_key,
            needs_costs=self.config.risk.kind == "cost_constraint",
        )
        if self._open is not None:
            self._reopen(other_env)

    def prepare(self) -> None:
        """Before training: say if it is not PPO."""
        if self.config.is_one_step and self.updates == 0:
            warnings.warn(
                f"n_epochs = 1 and batch_size = {self.config.batch_size} of {self.config.rollout_rows} rows make one "
                "gradient step of each rollout: this is A2C. Ratios stay 1, so that nothing is ever clipped; for PPO "
                "raise n_epochs or lower batch_size",
                SurefootWarning,
                stacklevel=5,
            )

    @property
    def compiled(self) -> bool:
        """Whether gradient steps are compiled."""
        return self.compiled_parts.step

    def collect(self) -> Rollout:
        """Step the environments; the rollout is valid until the next call."""
        if self.collector.pending is None:
            self.collector.start(self.config.seed)
        elif self._phase is Phase.COLLECTING:  # cut half way: an env may be a step ahead of its observation
            self._start_new_episodes()
        self._phase = Phase.COLLECTING
        rollout = self.collector.collect(self._check)
        self.timesteps += int(rollout.valid.sum())
        self._phase = Phase.COLLECTED
        return rollout

    def learn(self, rollout: Rollout, total_updates: int) -> IterationRecord:
        """Improve the policy on a rollout; ``total_updates`` is what schedules span."""
        start = time.perf_counter()
        self._phase = Phase.UPDATING
        first = self.updates == 0
        require_same_masks(rollout, self.family)
        shaping = self._shaping(total_updates)
        estimates = estimate(rollout, self.policy, self.rewards, self.config.ppo, first, shaping)
        coefficients = self.plan.at(self.updates - self.schedules.first_update, total_updates)
        record = self.updater.update(rollout, estimates, coefficients, self.updates, self._check)
        episodes = self.collector.episodes.summary()
        if record.gradient_steps or record.kl_stop:  # schedules stand still only if every step was not finite (O09)
            self.plan.advance(coefficients, record.kl_last, episodes.get("rollout/ep_rew_mean"))
            self.updates += 1
        metrics = self.policy.critic.metrics(estimates.prediction, estimates.returns, rollout.valid)
        metrics |= estimates.metrics | self.plan.metrics() | self.optimizer.metrics()
        self.policy.critic.update_statistics(estimates.returns, rollout.valid)
        if estimates.costs is not None:
            estimates.costs.update_statistics(rollout.valid)
        if self.envs.n_restarts:
            metrics["warn/env_restarts"] = float(self.envs.n_restarts)
        if self.observations is not None:
            drift = self.observations.finish_rollout()
            metrics |= {"train/observation_mean_drift": drift.mean, "train/observation_std_drift": drift.std}
        if self.rewards is not None:
            metrics["train/reward_scale"] = self.rewards.scale
        steps = int(rollout.valid.sum())
        self._phase = Phase.BETWEEN
        return IterationRecord(record, episodes, metrics, steps, time.perf_counter() - start)

    def _shaping(self, total_updates: int) -> Shaping | None:
        """The risk term with its coefficients of this update."""
        if self.risk is None:
            return None
        update = self.updates - self.schedules.first_update
        rate = value_at(self.config.risk.multiplier_lr, update, total_updates)
        return Shaping(self.risk, rate, self.config.critic.kind != "scalar")

    def _check(self) -> None:
        if self.interrupted():
            raise Abandoned

    def restart_schedules(self) -> None:
        """Count env steps from 0, and let schedules begin anew with the next update."""
        self.timesteps = self.collector.vector_steps = 0
        self.schedules = ScheduleSpan(first_update=self.updates)
        self.plan = self._new_plan()

    def _new_plan(self) -> CoefficientPlan:
        return CoefficientPlan(self.config.ppo, self.family.head_names, self.terms)

    def state_dict(self) -> TrainerState:
        """A copy of everything that the next iteration depends on."""
        open_tensors, collector = self._open_episodes()
        tensors = self._lasting_tensors() | {f"collector/{name}": x for name, x in open_tensors.items()}
        values = {
            "timesteps": self.timesteps,
            "updates": self.updates,
            "schedules": self.schedules._asdict(),
            "plan": self.plan.state_dict(),
            "bad_streak": self.updater.bad_streak,
            "compiled": self.compiled_parts.step or self.was_compiled.step,
            "kernel": self.compiled_parts.kernel or self.was_compiled.kernel,
            "collector": collector,
            "risk": None if self.risk is None else self.risk.state_dict(),
            "action_units": "box",
        }
        # The statistics of a rollout that was not learned from yet are not part of the state.
        whole = self._phase is Phase.BETWEEN or (self._phase is Phase.COLLECTED and self.observations is None)
        exact = whole and (not collector["started"] or collector["envs"] is not None)
        return TrainerState({name: x.detach().cpu().clone() for name, x in tensors.items()}, values, exact)

    def _open_episodes(self) -> OpenEpisodes:
        """What `_reopen` goes on with; of a loaded state that has no envs yet, as it was loaded."""
        if self._open is not None:
            return self._open
        return OpenEpisodes(*self.collector.save(with_envs=self._phase is not Phase.COLLECTING))

    def load_state_dict(self, state: TrainerState) -> None:
        """Restore; a missing or misshapen tensor is an error, never ignored (Y05).

        Open episodes go on where that is possible, else new ones begin; `resumed` says which and why (Y08).
        """
        self._require_like(state)
        if state.values["action_units"] == "env":
            state = replace(state, tensors=in_box_units(state.tensors, self.flat, self.family))
        for name, parameter in self.flat.named().items():
            parameter.copy_(state.tensors[f"policy/{name}"])
        buffers = _section(state.tensors, "buffers")
        for name, buffer in self.policy.named_buffers():
            buffer.copy_(buffers[name])
        self.optimizer.load_state_dict(_section(state.tensors, "optimizer"))
        for term in self.terms:
            term.load_state_dict(_section(state.tensors, f"terms/{term.name}"))
        for name, saved in _section(state.tensors, "generator").items():
            self._generators[name].set_state(saved.to(torch.uint8))
        if self.observations is not None:
            self.observations.load_state_dict(_section(state.tensors, "observations"))
        if self.rewards is not None:
            self.rewards.load_state_dict(_section(state.tensors, "rewards"))
        self.timesteps = int(state.values["timesteps"])
        self.updates = int(state.values["updates"])
        self.schedules = ScheduleSpan(**state.values["schedules"])
        self.updater.bad_streak = int(state.values["bad_streak"])
        self.plan.load_state_dict(state.values["plan"])
        if self.risk is not None:
            self.risk.load_state_dict(state.values["risk"])
        self.was_compiled = Compiled(bool(state.values["kernel"]), bool(state.values["compiled"]))
        self._phase = Phase.BETWEEN
        self._open = OpenEpisodes(_section(state.tensors, "collector"), state.values["collector"])
        if self._collector is not None:
            self._reopen(None)

    def _reopen(self, other_env: str | None) -> None:
        """Go on with the open episodes of the loaded state, or say why not and start new ones."""
        assert self._open is not None
        (tensors, values), self._open = self._open, None
        self.collector.load_totals(values)
        self.resumed = Resumed(exact=True, reason="")
        if not values["started"]:
            self._forget_open()
            return
        reason = other_env or _why_not(values, self.envs.n_envs)
        if reason is None and not self._counts_envs():
            reason = "what it says of open episodes is not of as many envs"
        if reason is None:
            try:
                self.collector.reopen(tensors, values)
                return
            except Exception as error:  # the env's own code, given a state that need not be its own
                reason = f"the env does not take the saved state ({type(error).__name__}: {error})"
        self.resumed = Resumed(exact=False, reason=reason)
        self._start_new_episodes()

    def _counts_envs(self) -> bool:
        """Whether what was loaded about open episodes is of as many envs as there are."""
        n_envs = self.envs.n_envs
        scaled = self.rewards is None or self.rewards.running.shape == (n_envs,)
        return scaled and (self.risk is None or self.risk.is_open_for(n_envs))

    def _start_new_episodes(self) -> None:
        """In all envs, with seeds of their own."""
        self._forget_open()
        self.collector.start((self.config.seed + 7919 * (self.updates + 1)) % 2**31)

    def _forget_open(self) -> None:
        """What is known of open episodes."""
        self.collector.episodes.forget_open(self.envs.n_envs)
        if self.rewards is not None:
            self.rewards.running = torch.zeros(self.envs.n_envs, dtype=torch.float64)
        if self.risk is not None:
            self.risk.forget_open(self.envs.n_envs)

    def _require_like(self, state: TrainerState) -> None:
        """Raise unless a state has the tensors and shapes of this learner; the envs' own parts are looked at later."""
        expected = self._lasting_tensors()
        found = {name: x for name, x in state.tensors.items() if not name.startswith("collector/")}
        odd = sorted(expected.keys() ^ found.keys())
        if odd:
            raise ConfigError(f"the saved state has other tensors than this configuration: {', '.join(odd[:4])}")
        for name, wanted in expected.items():
            given = found[name]
            of_envs = name in ENV_TENSORS and given.dim() == 1  # of how many may be another
            if given.dtype != wanted.dtype or (given.shape != wanted.shape and not of_envs):
                raise ConfigError(
                    f"the saved {name} is {given.dtype} of shape {tuple(given.shape)}, not {wanted.dtype} of "
                    f"{tuple(wanted.shape)}"
                )

    def _lasting_tensors(self) -> dict[str, Tensor]:
        """All of the state but the open episodes."""
        tensors = {f"policy/{name}": x for name, x in self.flat.named().items()}
        tensors |= {f"optimizer/{name}": x for name, x in self.optimizer.state_dict().items()}
        for term in self.terms:
            tensors |= {f"terms/{term.name}/{name}": x for name, x in term.state_dict().items()}
        tensors |= {f"generator/{name}": g.get_state() for name, g in self._generators.items()}
        tensors |= {f"buffers/{name}": x for name, x in self.policy.named_buffers()}
        if self.observations is not None:
            tensors |= {f"observations/{name}": x for name, x in self.observations.state_dict().items()}
        if self.rewards is not None:
            tensors |= {f"rewards/{name}": x for name, x in self.rewards.state_dict().items()}
        return tensors


def warn_of_rest(config: Config, stacklevel: int) -> None:
    """Warn if minibatches do not divide the rollout."""
    rest = config.rollout_rows % config.batch_size
    if rest:
        warnings.warn(
            f"n_steps {config.ppo.n_steps} x n_envs {config.n_envs} = {config.rollout_rows} rows are no multiple "
            f"of batch_size {config.batch_size}: the last minibatch of each epoch has {rest} rows",
            SurefootWarning,
            stacklevel=stacklevel,
        )


def _why_not(values: Mapping[str, Any], n_envs: int) -> str | None:
    """Why envs cannot go on with saved episodes, as far as these tell; None if they may."""
    if values["envs"] is None:
        return "the state of its envs was not saved with it"
    if len(values["active"]) != n_envs:
        return f"it was saved with {len(values['active'])} envs, here are {n_envs}"
    return None


def _never() -> bool:
    return False


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
    """What the networks see: all of the observation but masks."""
    masks = observed_masks(envs, config)
    return envs.layout if masks is None else envs.layout.without(masks.names)


def _section(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}/"): x for name, x in tensors.items() if name.startswith(f"{prefix}/")}
