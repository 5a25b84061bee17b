"""`surefoot/Hedging-v0`: many options at once, or one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from surefoot.errors import ConfigError, EnvError
from surefoot.hedging.book import Book
from surefoot.hedging.dynamics import Dynamics, dynamics_named
from surefoot.hedging.observation import Units

Array = np.ndarray[Any, Any]


class HedgingVector(VectorEnv[Array, Array, Array]):
    """N sellers of a call hedge it daily until it expires; one numpy call steps all of them.

    The reward is the change of P&L (`book.py` has the formula), so that an episode's rewards add up to its P&L. What is
    observed, and in which units, says `observation.Units`. Actions are positions: the stock in [0, 1]; for Heston also
    the variance swap in [0, 1000].

    A finished env starts again in the same step (``AutoresetMode.SAME_STEP``), so that every row is a true transition;
    ``info["final_obs"]`` then holds the true successors of all rows, ``info["_final_obs"]`` says whose are final.

    ``stagger`` spreads the envs over the days of an option's life, so that their episodes end at different times. After
    a reset, env i of N sells its *first* option on day ⌊i·n_steps/N⌋, at the money, for the risk-neutral price of the
    days that are left; it expires with the others, and every later episode is a whole one. First episodes of staggered
    envs are thus honest bets, but on shorter options: leave them out of statistics of P&L.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(
        self,
        num_envs: int = 1,
        dynamics: str | Dynamics = "black_scholes",
        cost_rate: float = 0.0,
        stagger: bool = False,
    ) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs = {num_envs}: at least one is needed")
        self.num_envs = num_envs
        self.dynamics = dynamics_named(dynamics)
        self._book = Book(self.dynamics, cost_rate, num_envs)
        self._stagger = stagger
        self.single_observation_space = self.units.space
        self.single_action_space = _action_space(self.dynamics)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def units(self) -> Units:
        """Names and units of the observation's columns."""
        return self._book.units

    @property
    def observation_columns(self) -> tuple[str, ...]:
        """Names of what is observed, in order."""
        return self.units.names

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """All envs at the start of an episode. All share one stream of random numbers; many seeds make one together."""
        if isinstance(seed, Sequence):
            if len(seed) != self.num_envs:
                raise ConfigError(f"{len(seed)} seeds for {self.num_envs} envs: give one for each, or a single number")
            self.np_random = np.random.default_rng([0 if each is None else each for each in seed])
        elif seed is not None:
            super().reset(seed=seed)
        first_day = np.arange(self.num_envs) * self.dynamics.n_steps // self.num_envs if self._stagger else 0
        self._book.open_all(self.np_random, first_day)
        return self._book.observe(), {}

    def step(self, actions: Array) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        reward, terminated = self._book.trade(self.np_random, actions)
        observation = self._book.observe()
        info: dict[str, Any] = {}
        if terminated.any():
            info = {"final_obs": observation, "_final_obs": terminated.copy()}
            self._book.open(self.np_random, terminated)
            observation = self._book.observe()
        return observation, reward, terminated, np.zeros(self.num_envs, np.bool_), info

    def state_dict(self) -> dict[str, Any]:
        """Everything that its future depends on, as plain values and numpy arrays."""
        return {"rng": self.np_random.bit_generator.state, "book": self._book.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()`: same actions, same observations and rewards, bit for bit."""
        self.np_random.bit_generator.state = state["rng"]
        self._book.load_state_dict(state["book"])


class Hedging(gymnasium.Env[Array, Array]):
    """One seller: a batch of one. ``stagger`` has no effect: there is no other env to be out of step with."""

    def __init__(
        self, dynamics: str | Dynamics = "black_scholes", cost_rate: float = 0.0, stagger: bool = False
    ) -> None:
        self.dynamics = dynamics_named(dynamics)
        self._book = Book(self.dynamics, cost_rate, 1)
        self._open = False
        self.observation_space = self.units.space
        self.action_space = _action_space(self.dynamics)

    @property
    def units(self) -> Units:
        """Names and units of the observation's columns."""
        return self._book.units

    @property
    def observation_columns(self) -> tuple[str, ...]:
        """Names of what is observed, in order."""
        return self.units.names

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        self._book.open_all(self.np_random)
        self._open = True
        return self._book.observe()[0], {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        if not self._open:
            raise EnvError("the option has expired, or none was sold yet: call reset() before step()")
        reward, expired = self._book.trade(self.np_random, np.asarray(action)[None])
        self._open = not expired[0]
        return self._book.observe()[0], float(reward[0]), bool(expired[0]), False, {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that its future depends on, as plain values and numpy arrays."""
        return {
            "rng": self.np_random.bit_generator.state,
            "book": self._book.state_dict(),
            "open": self._open,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()`: same actions, same observations and rewards, bit for bit."""
        self.np_random.bit_generator.state = state["rng"]
        self._book.load_state_dict(state["book"])
        self._open = bool(state["open"])


def _action_space(dynamics: Dynamics) -> spaces.Box:
    high = np.array(dynamics.position_limits, np.float32)
    return spaces.Box(np.zeros_like(high), high, dtype=np.float32)
