"""One learner: environments, policy, optimizer, normalizers, schedules; and the state that survives an iteration."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

import torch
from torch import Tensor

from surefoot.algo.action_units import in_box_units
from surefoot.algo.build import build_parts, observed_layout
from surefoot.algo.coefficients import CoefficientPlan, value_at
from surefoot.algo.estimate import (
    Estimates,
    estimate,
    predict,
    steps_of,
    update_critic_statistics,
    with_targets,
)
from surefoot.algo.record import UpdateRecord
from surefoot.algo.same_masks import require_same_masks
from surefoot.algo.trainer_state import (
    ENV_TENSORS,
    Compiled,
    OpenEpisodes,
    Resumed,
    ScheduleSpan,
    TrainerState,
    section,
    why_not_open,
)
from surefoot.config import Config
from surefoot.errors import ConfigError, EnvError, SurefootWarning
from surefoot.policy.own_encoder import EncoderClass
from surefoot.rollout.buffer import Rollout
from surefoot.rollout.collector import Collector
from surefoot.vector.described import DescribedEnvs
from surefoot.vector.episode_context import UNKNOWN
from surefoot.vector.interface import Envs


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


class Phase(Enum):
    """Where an iteration stands; an exception may leave it anywhere."""

    BETWEEN = auto()
    COLLECTING = auto()
    COLLECTED = auto()
    UPDATING = auto()


class Abandoned(Exception):
    """The iteration was given up half way; the learner's state is that of no checkpoint."""


class Learner:
    """Runs iterations of rollout and update on parts that `build_parts` made, and knows their state."""

    def __init__(self, config: Config, envs: Envs, encoder: EncoderClass | None = None) -> None:
        self.config, self.envs = config, envs
        self.device = torch.device(config.device)
        self.parts = build_parts(config, envs, encoder)
        self.policy, self.family, self.flat = self.parts.policy, self.parts.family, self.parts.flat
        self.actor, self.optimizer, self.updater = self.parts.actor, self.parts.optimizer, self.parts.updater
        self.observations, self.rewards, self.risk = self.parts.observations, self.parts.rewards, self.parts.risk
        self.terms = self.parts.terms
        self.act_generator = self.parts.generators["act"]
        self._collector: Collector | None = None
        self._open: OpenEpisodes | None = None
        self.resumed: Resumed | None = None
        """How the open episodes of a loaded state go on; None before any state was loaded and has envs."""
        self.plan = self._new_plan()
        self.interrupted: Callable[[], bool] = _never
        """Asked before each env step and each minibatch; True abandons the iteration with `Abandoned`."""
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
            needs_costs=self.risk is not None and self.risk.needs_costs,
            context=self.parts.context,
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
        require_same_masks(rollout, self.family)
        update = self.updates - self.schedules.first_update
        rate = value_at(self.config.risk.multiplier_lr, update, total_updates)
        metrics = self._observe(rollout, rate)
        estimates = self._estimate(rollout)
        if self.updates == 0:
            estimates = self._set_first_unit(rollout, estimates)
        coefficients = self.plan.at(update, total_updates)
        record = self.updater.update(rollout, estimates, coefficients, self.updates, self._check)
        episodes = self.collector.episodes.summary()
        if record.gradient_steps or record.kl_stop:  # schedules stand still only if every step was not finite (O09)
            self.plan.advance(coefficients, record.kl_last, episodes.get("rollout/ep_rew_mean"))
            self.updates += 1
        metrics |= self.policy.critic.metrics(estimates.prediction, estimates.returns, rollout.valid)
        metrics |= (
            estimates.metrics | self.plan.metrics() | self.optimizer.metrics() | self._advance(rollout, estimates)
        )
        if self.envs.n_restarts:
            metrics["warn/env_restarts"] = float(self.envs.n_restarts)
        self._phase = Phase.BETWEEN
        return IterationRecord(record, episodes, metrics, int(rollout.valid.sum()), time.perf_counter() - start)

    def _observe(self, rollout: Rollout, multiplier_lr: float) -> dict[str, float]:
        """Move what must move before the rollout is learned from: the scale of rewards, and the critic with it; the
        statistics and the multiplier of the risk term."""
        if self.rewards is not None:
            factor = self.rewards.update_statistics(rollout.reward, rollout.done, rollout.valid)
            if self.updates and factor != 1.0:  # before the first update there is nothing to keep
                self.policy.critic.rescale(torch.tensor(factor), torch.tensor(0.0))  # A11
        return {} if self.risk is None else self.risk.observe(steps_of(rollout), multiplier_lr)

    def _estimate(self, rollout: Rollout) -> Estimates:
        """What the update learns from; changes nothing."""
        critic, scale = self.policy.critic, 1.0 if self.rewards is None else self.rewards.scale
        predictions = predict(rollout, self.policy)
        return estimate(rollout, self._scaled(rollout), predictions, critic, self.config.ppo, self.risk, scale)

    def _set_first_unit(self, rollout: Rollout, estimates: Estimates) -> Estimates:
        """Before the very first update: let the first returns set the critic's unit; estimates with targets in it."""
        critic = self.policy.critic
        update_critic_statistics(critic, estimates, rollout.valid)
        predictions = predict(rollout, self.policy)
        return with_targets(estimates, rollout, self._scaled(rollout), predictions, critic, self.config.ppo)

    def _scaled(self, rollout: Rollout) -> Tensor:
        return rollout.reward if self.rewards is None else self.rewards(rollout.reward)

    def _advance(self, rollout: Rollout, estimates: Estimates) -> dict[str, float]:
        """Move what stayed while the rollout was learned from: the critic's unit, observation statistics, the risk
        term's threshold. Metrics by log key."""
        metrics: dict[str, float] = {}
        if self.parts.calibration is not None:  # while the critic's unit is still that of the predictions
            scale = 1.0 if self.rewards is None else self.rewards.scale
            metrics |= self.parts.calibration.update(steps_of(rollout), self.policy.critic, estimates.prediction, scale)
        update_critic_statistics(self.policy.critic, estimates, rollout.valid)
        if self.observations is not None:
            drift = self.observations.finish_rollout()
            metrics |= {"train/observation_mean_drift": drift.mean, "train/observation_std_drift": drift.std}
        if self.rewards is not None:
            metrics["train/reward_scale"] = self.rewards.scale
        if self.risk is not None:
            self.risk.advance()
            self._set_context_unit()
        return metrics

    def _set_context_unit(self) -> None:
        """Show networks the return so far in the unit of the risk term."""
        if self.parts.context is not None and self.risk is not None:
            self.parts.context.set_unit(*(self.risk.unit or UNKNOWN))

    def _check(self) -> None:
        if self.interrupted():
            raise Abandoned

    def restart_schedules(self) -> None:
        """Count env steps from 0, and let schedules begin anew with the next update."""
        self.timesteps = self.collector.vector_steps = 0
        self.schedules = ScheduleSpan(first_update=self.updates)
        for term in self.terms:
            term.restart()
        self.plan = self._new_plan()

    def _new_plan(self) -> CoefficientPlan:
        return CoefficientPlan(self.config.ppo, self.family.head_names, self.terms)

    def state_dict(self) -> TrainerState:
        """A copy of everything that the next iteration depends on."""
        open_tensors, collector = self._open_episodes()
        tensors = self.lasting_tensors() | {f"collector/{name}": x for name, x in open_tensors.items()}
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
            "calibration": None if self.parts.calibration is None else self.parts.calibration.state_dict(),
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
        buffers = section(state.tensors, "buffers")
        for name, buffer in self.policy.named_buffers():
            buffer.copy_(buffers[name])
        self.optimizer.load_state_dict(section(state.tensors, "optimizer"))
        for term in self.terms:
            term.load_state_dict(section(state.tensors, f"terms/{term.name}"))
        for name, saved in section(state.tensors, "generator").items():
            self.parts.generators[name].set_state(saved.to(torch.uint8))
        if self.observations is not None:
            self.observations.load_state_dict(section(state.tensors, "observations"))
        if self.rewards is not None:
            self.rewards.load_state_dict(section(state.tensors, "rewards"))
        self.timesteps = int(state.values["timesteps"])
        self.updates = int(state.values["updates"])
        self.schedules = ScheduleSpan(**state.values["schedules"])
        self.updater.bad_streak = int(state.values["bad_streak"])
        self.plan.load_state_dict(state.values["plan"])
        if self.risk is not None:
            self.risk.load_state_dict(state.values["risk"])
            self._set_context_unit()
        if self.parts.calibration is not None:
            self.parts.calibration.load_state_dict(state.values["calibration"])
        self.was_compiled = Compiled(bool(state.values["kernel"]), bool(state.values["compiled"]))
        self._phase = Phase.BETWEEN
        self._open = OpenEpisodes(section(state.tensors, "collector"), state.values["collector"])
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
            self.collector.stop()
            return
        reason = other_env or why_not_open(values, self.envs.n_envs)
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
        followers = (part for part in (self.risk, self.parts.calibration) if part is not None)
        return scaled and all(part.is_open_for(n_envs) for part in followers)

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
        if self.parts.calibration is not None:
            self.parts.calibration.forget_open(self.envs.n_envs)

    def _require_like(self, state: TrainerState) -> None:
        """Raise unless a state has the tensors and shapes of this learner; the envs' own parts are looked at later."""
        expected = self.lasting_tensors()
        found = {name: x for name, x in state.tensors.items() if not name.startswith("collector/")}
        odd = sorted(expected.keys() ^ found.keys())
        if odd:
            raise ConfigError(
                f"the saved state has other tensors than these settings: {', '.join(odd[:4])}. An optimizer, vgs and "
                "loss terms such as robust keep a state: they are switched neither on nor off when an agent is loaded"
            )
        for name, wanted in expected.items():
            given = found[name]
            of_envs = name in ENV_TENSORS and given.dim() == 1  # of how many may be another
            if given.dtype != wanted.dtype or (given.shape != wanted.shape and not of_envs):
                raise ConfigError(
                    f"the saved {name} is {given.dtype} of shape {tuple(given.shape)}, not {wanted.dtype} of "
                    f"{tuple(wanted.shape)}"
                )

    def lasting_tensors(self) -> dict[str, Tensor]:
        """All of the state but the open episodes."""
        tensors = {f"policy/{name}": x for name, x in self.flat.named().items()}
        tensors |= {f"optimizer/{name}": x for name, x in self.optimizer.state_dict().items()}
        for term in self.terms:
            tensors |= {f"terms/{term.name}/{name}": x for name, x in term.state_dict().items()}
        tensors |= {f"generator/{name}": g.get_state() for name, g in self.parts.generators.items()}
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


def _never() -> bool:
    return False
