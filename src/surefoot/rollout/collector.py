"""Steps the environments with the policy and fills a rollout."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from surefoot.errors import EnvError, EnvStateError, SurefootWarning
from surefoot.rollout.actor import Actor, RolloutActor, TorchActor
from surefoot.rollout.buffer import Finals, Rollout, digest
from surefoot.rollout.episode_statistics import EpisodeTracker
from surefoot.spaces import CONTEXT_LEAF, Array, Layout
from surefoot.vector.episode_context import EpisodeContext
from surefoot.vector.guard import OF_FLOAT32, OF_POLICY, Guard, read_costs, read_successes
from surefoot.vector.interface import NOTHING_DROPPED, Envs, Step

ROWS_AT_ONCE = 4096
"""Whose log-probabilities are computed together: enough to make calls cheap, few enough for wide actions to fit."""


class Collector:
    """Owns what is open between two rollouts: the pending observation and the open episodes."""

    def __init__(
        self,
        envs: Envs,
        actor: Actor,
        layout: Layout,
        n_steps: int,
        generator: torch.Generator,
        cost_key: str = "cost",
        needs_costs: bool = False,
        context: EpisodeContext | None = None,
    ) -> None:
        """``layout`` is what the networks see; ``needs_costs``: a transition without ``info[cost_key]`` is an error.
        ``context``: how open episodes stand, if a network or a risk term asks for it."""
        self.envs, self._actor = envs, actor
        self._policy, self._family, self.normalizer = actor.policy, actor.family, actor.normalizer
        self._cost_key, self._needs_costs, self._context = cost_key, needs_costs, context
        policy, family = actor.policy, actor.family
        hidden = policy.value_hidden
        self.rollout = Rollout.allocate(
            n_steps, envs.n_envs, layout, family, family.n_parameters, (policy.state_size, hidden.stop - hidden.start)
        )
        self._context_rows: Array | None = None
        if context is not None:
            rows = torch.zeros(n_steps + 1, envs.n_envs, context.n_columns)
            self.rollout.observation[CONTEXT_LEAF], self._context_rows = rows, rows.numpy()
            context.forget_open(envs.n_envs)
        self.rows: RolloutActor = TorchActor(actor, self.rollout, generator)
        """What acts on the rollout's rows; a faster one may stand in its place."""
        self._observations = {
            name: tensor.numpy() for name, tensor in self.rollout.observation.items() if name != CONTEXT_LEAF
        }
        fields = [
            "action",
            "log_prob",
            "parameters",
            "reward",
            "cost",
            "terminated",
            "truncated",
            "valid",
            "start",
            "running",
            "weight",
        ]
        self._arrays = {name: getattr(self.rollout, name).numpy() for name in [*fields, "state", "hidden"]}
        self._rewards = np.zeros((n_steps, envs.n_envs))
        self.state = np.zeros((envs.n_envs, policy.state_size), np.float32)
        self.episode_start = np.ones(envs.n_envs, np.bool_)
        self.episodes = EpisodeTracker(envs.n_envs)
        self.pending: Mapping[str, Array] | None = None
        self._set_active(np.ones(envs.n_envs, np.bool_))
        self.vector_steps = 0
        self._guard = Guard(normalizes=actor.normalizer is not None)
        self._said_inexact = False
        self._finals: list[Finals] = []
        """Of the rollout that is being filled, by step."""

    def stop(self) -> None:
        """Leave the open episodes, so that the envs are as before `start`."""
        self.pending = None
        self._set_active(np.ones(self.envs.n_envs, np.bool_))
        self.episode_start = np.ones(self.envs.n_envs, np.bool_)
        self.state[:] = 0.0
        if self._context is not None:
            self._context.forget_open(self.envs.n_envs)

    def start(self, seed: int) -> None:
        """Reset every env."""
        self.stop()
        self.pending = self.envs.reset(seed)
        self._guard.observations(self.pending, 0)
        self._make_room_for_masks()
        self._env_state()  # whoever trains should learn now, not at the first checkpoint, that it will not be exact

    def save(self, with_envs: bool = True) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Pending observation, memory and open episodes: tensors, and plain values. Without the envs, nothing of what
        is open can be gone on with."""
        started = self.pending is not None
        envs = self._env_state() if started and with_envs else None
        tensors: dict[str, Tensor] = {}
        if self.pending is not None and envs is not None:
            tensors = {f"pending/{name}": torch.from_numpy(np.array(x)) for name, x in self.pending.items()}
            if self.state.shape[1]:
                tensors["memory"] = torch.from_numpy(self.state)
        values = {
            "active": self.active.tolist(),
            "episode_start": self.episode_start.tolist(),
            "vector_steps": self.vector_steps,
            "episodes": self.episodes.state_dict(),
            "envs": envs,
            "kind": self.envs.kind,
            "started": started,
            "context": None if self._context is None else self._context.state_dict(),
        }
        return tensors, values

    def _env_state(self) -> list[Any] | None:
        """The state of the envs, or None if it cannot be kept; the reason is said once (Y08)."""
        try:
            return self.envs.state_dict()
        except EnvStateError as error:
            if not self._said_inexact:
                self._said_inexact = True
                warnings.warn(
                    f"{error}. Open episodes are not saved: a resumed run starts new ones, and is not exact",
                    SurefootWarning,
                    stacklevel=2,
                )
            return None

    def load_totals(self, values: Mapping[str, Any]) -> None:
        """What is known of steps and episodes so far, whatever becomes of the open ones."""
        self.vector_steps = int(values["vector_steps"])
        self.episodes.load_state_dict(values["episodes"])

    def reopen(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Go on with the open episodes of `save`; any exception if these envs cannot."""
        if values["kind"] not in (self.envs.kind, None):  # older formats do not say
            raise ValueError(f"it is of {values['kind']}, these are {self.envs.kind}")
        leaves = self.envs.layout.leaves
        pending = {leaf.name: tensors[f"pending/{leaf.name}"].numpy().astype(leaf.raw_dtype) for leaf in leaves}
        for leaf in leaves:
            if pending[leaf.name].shape != (self.envs.n_envs, *leaf.shape):
                raise ValueError(f"the saved observation {leaf.name!r} has shape {pending[leaf.name].shape}")
        self._guard.observations(pending, self.vector_steps)
        active, episode_start = np.array(values["active"], np.bool_), np.array(values["episode_start"], np.bool_)
        if not active.shape == episode_start.shape == self.episodes.total.shape == (self.envs.n_envs,):
            raise ValueError("it does not say of every env how it stands")
        state = tensors["memory"].numpy() if self.state.shape[1] else self.state
        if state.shape != self.state.shape or not np.isfinite(state).all():
            raise ValueError(f"the saved memory has shape {state.shape}, or is not finite")
        if self._context is not None:
            self._context.load_state_dict(values["context"])
        self.envs.load_state_dict(values["envs"])
        self.pending, self.episode_start = pending, episode_start
        self._set_active(active)
        self.state[:] = state
        self._make_room_for_masks()

    def collect(self, check: Callable[[], None] = lambda: None) -> Rollout:
        """Fill the rollout; its storage is used again by the next call. ``check`` may raise before any step."""
        rollout = self.rollout
        rollout.ended.clear()
        self._finals.clear()
        rollout.first_step = self.vector_steps
        self.rows.begin()
        self._arrays["state"][0] = self.state
        for t in range(rollout.n_steps):
            check()
            self._observe(t, update=True)
            step = self.envs.step(self._act(t))
            self._store(t, step)
            self.pending = step.observation
            if step.active is not self.active:
                self._set_active(step.active)
            self.vector_steps += 1
        self._observe(rollout.n_steps, update=False)
        rollout.final = Finals.joined(self._finals)
        self._arrays["reward"][:] = self._rewards
        self._write_log_probs()
        if rollout.mask is not None:
            rollout.mask_digest = digest(rollout.mask)
        return rollout

    def _set_active(self, active: NDArray[np.bool_]) -> None:
        self.active = active
        self._needs_reset = None if active.all() else ~active[:, None]
        """[N, 1] envs that will only carry a reset, if there are any."""

    def _observe(self, t: int, update: bool) -> None:
        """Normalize the pending observation into row t; with ``update``, after the statistics have taken it in."""
        assert self.pending is not None, "start() comes before collect()"
        if self.normalizer is not None and update:
            self.normalizer.update(self.pending, self.active)
        seen = self._actor.seen(self.pending)
        for name, rows in self._observations.items():
            rows[t] = seen[name]
        if self._context is not None and self._context_rows is not None:
            self._context_rows[t] = self._context.columns()

    def _act(self, t: int) -> Any:
        """Sample actions for row t, in the env's form; the memory states of row t + 1 are written."""
        self.rows.forward(t)
        mask, action = self._mask(t), self._arrays["action"][t]
        self._guard.check(self._arrays["parameters"][t], "action parameter", self.vector_steps, advice=OF_POLICY)
        self.rows.sample(t, mask, self.vector_steps)
        self._guard.check(action, "action", self.vector_steps, advice=OF_POLICY)
        return self._family.to_env(action)

    def _write_log_probs(self) -> None:
        """Those of all actions, many at once, by the distribution that they were drawn from."""
        rollout, device = self.rollout, self._actor.device
        parameters, action = rollout.parameters.flatten(0, 1), rollout.action.flatten(0, 1)
        mask = None if rollout.mask is None else rollout.mask.flatten(0, 1)
        log_prob = rollout.log_prob.view(-1)
        by_head = None if rollout.head_log_prob is None else rollout.head_log_prob.flatten(0, 1)
        with torch.inference_mode():
            for first in range(0, len(log_prob), ROWS_AT_ONCE):
                rows = slice(first, first + ROWS_AT_ONCE)
                legal = None if mask is None else mask[rows].to(device)
                distribution = self._family.bind(parameters[rows].to(device), legal)
                of_heads = distribution.head_log_prob(action[rows].to(device))
                if by_head is not None:
                    by_head[rows] = of_heads
                log_prob[rows] = of_heads.sum(-1)
        self._guard.rollout(
            self._arrays["log_prob"], "log-probability of the action", rollout.first_step, advice=OF_POLICY
        )

    def _mask(self, t: int) -> Array | None:
        """Legal actions of row t, stored for the update (F05)."""
        masks, stored = self._masks(), self._arrays.get("mask")
        if masks is None and stored is None:
            return None
        if stored is None or masks is None or stored.shape[2] != masks.shape[1]:
            before, width = (0 if x is None else x.shape[-1] for x in (stored, masks))
            raise EnvError(
                f"the envs gave masks of {before} flags at the start and of {width} at step {self.vector_steps}; "
                "an env that gives masks must give them always, and in one form"
            )
        rows: Array = stored[t]
        rows[:] = masks
        if self._needs_reset is not None:
            rows |= self._needs_reset  # after the last step there is nothing to choose
        return rows

    def _masks(self) -> Array | None:
        """Legal actions [N, M] of the pending observation."""
        assert self.pending is not None, "start() comes before collect()"
        return self._actor.masks(self.pending, self.envs)

    def _make_room_for_masks(self) -> None:
        masks = self._masks()
        if masks is not None and (self.rollout.mask is None or self.rollout.mask.shape[2] != masks.shape[1]):
            self.rollout.mask = torch.ones(self.rollout.n_steps, *masks.shape, dtype=torch.bool)
            self._arrays["mask"] = self.rollout.mask.numpy()

    def _drop(self, t: int, dropped: NDArray[np.bool_]) -> None:
        """The open episodes of some envs were lost: what this rollout has of them is no data."""
        for env in np.flatnonzero(dropped):
            began = np.flatnonzero(self._arrays["start"][: t + 1, env])
            self._arrays["valid"][began[-1] if began.size else 0 : t + 1, env] = False
        self.episodes.drop_open(dropped)

    def _store(self, t: int, step: Step) -> None:
        self._guard.observations(step.observation, self.vector_steps)
        self._guard.check(step.reward, "reward", self.vector_steps, limit=OF_FLOAT32)
        arrays, after = self._arrays, self._arrays["state"][t + 1]
        self._rewards[t] = step.reward
        costs = read_costs(step.infos, self._cost_key, self.vector_steps, step.valid if self._needs_costs else None)
        arrays["terminated"][t] = step.terminated
        arrays["truncated"][t] = step.truncated
        arrays["valid"][t] = step.valid
        arrays["start"][t] = self.episode_start
        arrays["cost"][t] = 0.0 if costs is None else costs
        done = step.terminated | step.truncated
        self.episode_start = done | ~step.valid
        self.episodes.step(step.reward, step.valid, costs)
        if step.final:
            self._end(t, step)
        if self._context is not None:
            arrays["running"][t], arrays["weight"][t] = self._context.running, self._context.weight
            self._context.step(step.reward, step.valid, self.episode_start)
        if step.dropped is not NOTHING_DROPPED and step.dropped.any():
            self._drop(t, step.dropped)
        if after.shape[1]:
            arrays["hidden"][t] = after[:, self._policy.value_hidden]
            after[self.episode_start] = 0.0
            self.state[:] = after

    def _end(self, t: int, step: Step) -> None:
        """Keep the true successors of truncated steps, and count the episodes that ended."""
        envs, leaves = step.final.envs, step.final.leaves
        self._guard.observations(leaves, self.vector_steps, envs)
        bootstrapped = ~step.terminated[envs]
        if bootstrapped.any():
            if not bootstrapped.all():
                leaves = {name: rows[bootstrapped] for name, rows in leaves.items()}
            cut = envs[bootstrapped]
            state = self._arrays["state"][t + 1][cut]
            seen = dict(self._actor.seen(leaves))
            if self._context is not None:
                seen[CONTEXT_LEAF] = self._context.after(step.reward)[cut]
            self._finals.append(Finals(np.full(len(cut), t), cut, seen, state))
        successes = read_successes(step.infos, envs, self.vector_steps)
        self.rollout.ended.append((t, self.episodes.end(envs, successes)))
