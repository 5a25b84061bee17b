"""The market as Gymnasium environments: N accounts stepped together, and a batch of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from surefoot.market.accounts import Accounts
from surefoot.market.costs import KINDS
from surefoot.market.features import FeatureStatistics
from surefoot.market.observation import Observation
from surefoot.market.prices import Column, Prices
from surefoot.market.registration import register_market
from surefoot.market.rewards import LEAST_GROWTH, Moment
from surefoot.market.settings import MarketSettings
from surefoot.market.simulator import BORROW, Flags
from surefoot.market.spec import require
from surefoot.market.world import build_world

Stepped = tuple[Observation, Column, Flags, Flags, dict[str, Any]]
AT_LEAST = 1e-12
"""Of the capital: equity as a divisor."""


class Market(VectorEnv[Observation, NDArray[Any], NDArray[Any]]):
    """``num_envs`` accounts that trade one instrument; docs/market-simulator.md tells what is simulated.

    Accounts whose episode ends start anew in the same step: ``info["final_obs"]`` and ``info["final_info"]`` have what
    they saw last. ``terminated`` is ruin only; the end of an episode or of the span truncates.
    """

    def __init__(self, prices: Prices | Any, num_envs: int = 64, seed: int | None = 0, **settings: Any) -> None:
        """``prices``, or what `load_prices` takes without further words; ``settings`` are those of `MarketSettings`,
        by name."""
        require(type(num_envs) is int and num_envs >= 1, f"num_envs = {num_envs!r} must be an integer from 1 on")
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP, "render_modes": []}
        self.num_envs = num_envs
        self.settings = MarketSettings.of(settings)
        self._world = build_world(_read(prices), self.settings)
        self._accounts = Accounts(self._world, num_envs, seed)
        self._least = AT_LEAST * self._world.capital
        self.single_observation_space = self._world.observer.space
        self.single_action_space = self._world.orders.space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        if self._masks() is not None:
            self.action_masks = self._legal

    @property
    def prices(self) -> Prices:
        """The bars that are traded."""
        return self._world.prices

    @property
    def statistics(self) -> FeatureStatistics:
        """What scales the features: to be saved with the agent, and given to every other span."""
        return self._world.statistics

    @property
    def observation_columns(self) -> tuple[str, ...]:
        """Names of what is observed, in order."""
        window, names = self.settings.window, self._world.pipeline.columns
        seen = [f"{name}[-{window - 1 - i}]" if window > 1 else name for i in range(window) for name in names]
        return (*seen, *self._world.observer.account_columns)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """New episodes for all accounts. One seed serves all, a list has one for each; None goes on drawing."""
        if isinstance(seed, Sequence):
            require(len(seed) == self.num_envs, f"{len(seed)} seeds for {self.num_envs} accounts")
            given = [s for s in seed if s is not None]
            require(len(given) in (0, self.num_envs), "seeds must be given for all accounts or for none")
            if given:
                self._accounts.reseed(given)
        elif seed is not None:
            self._accounts.reseed(seed)
        self._accounts.begin(np.ones(self.num_envs, np.bool_))
        zeros = np.zeros(self.num_envs)
        moment = Moment(*[zeros] * 6)
        rewards = dict.fromkeys(self._world.reward.names, zeros)
        return self._observe(), self._info(moment, rewards, np.zeros(self.num_envs, np.bool_))

    def step(self, actions: NDArray[Any]) -> Stepped:
        """One bar for all accounts."""
        observation, reward, terminated, truncated, info = self.advance(actions)
        done = terminated | truncated
        if np.count_nonzero(done):
            final = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(done):
                final[i] = observation[i].copy()
            self._accounts.begin(done)
            observation = self._observe()
            info = self._after_reset(info, done) | {
                "final_obs": final,
                "_final_obs": done,
                "final_info": info,
                "_final_info": done,
            }
        return observation, reward, terminated, truncated, info

    def advance(self, actions: NDArray[Any]) -> Stepped:
        """One bar for all accounts, without starting ended episodes anew."""
        world, accounts, before = self._world, self._accounts, self._accounts.marked
        if accounts.episode[0] < 0:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        order = world.orders.read(actions, accounts.bar, accounts.position, accounts.choice)
        bar = accounts.bar + 1
        multiplier = None if world.same_costs else accounts.multiplier
        marked = world.simulator.step(before, bar, order.target, multiplier, order.hold)
        equity, fees = marked.equity, marked.fees
        divisor = 1.0 / before.equity
        growth = np.log(np.maximum(equity * divisor, LEAST_GROWTH))
        position = marked.value / np.maximum(equity, self._least)
        peak = np.maximum(accounts.peak, equity)
        drawdown = 1.0 - np.maximum(equity, 0.0) / peak
        paid = np.add.reduce(fees[:BORROW]) * divisor
        moment = Moment(growth, drawdown, accounts.drawdown, paid, marked.traded * divisor, np.abs(position))
        reward, components = world.reward.value(moment, accounts.memory)
        accounts.bar, accounts.marked, accounts.peak = bar, marked, peak
        accounts.position, accounts.drawdown = position, drawdown
        if order.choice is not None:
            accounts.choice = order.choice
        info = self._info(moment, components, order.limited)
        return self._observe(), reward, equity <= world.ruin, bar >= accounts.end, info

    def state_dict(self) -> dict[str, Any]:
        """Everything that the future depends on, as numbers and small arrays."""
        return self._accounts.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`: same actions, same observations and rewards, bit for bit."""
        self._accounts.load_state_dict(state)

    def _observe(self) -> Observation:
        accounts = self._accounts
        return self._world.observer.gather(accounts.bar, accounts.position, accounts.drawdown, accounts.time_left)

    def _masks(self) -> Flags | None:
        return self._world.orders.masks(self._accounts.bar, self._accounts.choice)

    def _legal(self) -> Flags:
        """[N, K] the levels that can be chosen now; as ``action_masks`` on markets that have such limits."""
        masks = self._masks()
        assert masks is not None
        return masks

    def _info(self, moment: Moment, components: dict[str, Column], limited: Flags) -> dict[str, Any]:
        """Columns of length N, each a new array that nothing writes to later."""
        accounts, marked = self._accounts, self._accounts.marked
        info = {
            "equity": marked.equity,
            "position": accounts.position,
            "cash": marked.cash,
            "units": marked.units,
            "turnover": moment.turnover,
            "drawdown": moment.drawdown,
            "fees": dict(zip(KINDS, marked.fees, strict=True)),
            "rewards": components,
            "limited": limited,
            "time": self._world.prices.closes_at[accounts.bar],
        }
        if self._world.constraint is not None:
            info["cost"] = self._world.constraint.value(moment)
        masks = self._masks()
        if masks is not None:
            info["action_mask"] = masks
        return info

    def _after_reset(self, info: dict[str, Any], done: Flags) -> dict[str, Any]:
        """The info of a step, with what holds at the start of an episode where one has begun."""
        marked = self._accounts.marked
        started = _zeroed(info, done) | {"equity": marked.equity, "cash": marked.cash}
        started["time"] = self._world.prices.closes_at[self._accounts.bar]
        masks = self._masks()
        return started if masks is None else started | {"action_mask": masks}


def _read(given: Prices | Any) -> Prices:
    """Prices, or those of a file, a data frame or a name."""
    if isinstance(given, Prices):
        return given
    require(given is not None, "a market needs prices: Market(load_prices(…)), a file, or the name of a data set")
    from surefoot.market.load import load_prices  # whoever has prices need not wait for its imports

    return load_prices(given)


def _zeroed(info: dict[str, Any], rows: Flags) -> dict[str, Any]:
    """A copy of columns that are 0 in the marked rows."""
    found: dict[str, Any] = {}
    for key, value in info.items():
        if isinstance(value, dict):
            found[key] = _zeroed(value, rows)
        else:
            found[key] = value.copy()
            found[key][rows] = np.zeros((), value.dtype)
    return found


class MarketEnv(gymnasium.Env[Observation, Any]):
    """One account: a batch of one of `Market`."""

    def __init__(self, prices: Prices | Any, seed: int | None = 0, **settings: Any) -> None:
        """``settings`` are those of `MarketSettings`, by name."""
        self.metadata = {"render_modes": []}
        self.batch = Market(prices, 1, seed, **settings)
        self.observation_space = self.batch.single_observation_space
        self.action_space = self.batch.single_action_space
        self._over = True
        if hasattr(self.batch, "action_masks"):
            self.action_masks = self._masks

    @property
    def observation_columns(self) -> tuple[str, ...]:
        """Names of what is observed, in order."""
        return self.batch.observation_columns

    @property
    def statistics(self) -> FeatureStatistics:
        """What scales the features."""
        return self.batch.statistics

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        observation, info = self.batch.reset(seed=seed)
        self._over = False
        return observation[0], _row(info)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over: call reset() before step()")
        observation, reward, terminated, truncated, info = self.batch.advance(np.asarray(action)[None])
        self._over = bool(terminated[0] or truncated[0])
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), _row(info)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the future depends on."""
        return {"over": self._over, "accounts": self.batch.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from `state_dict()`, bit for bit."""
        self.batch.load_state_dict(state["accounts"])
        self._over = bool(state["over"])

    def _masks(self) -> Flags:
        return np.asarray(self.batch.action_masks()[0])


def _row(info: dict[str, Any]) -> dict[str, Any]:
    """Info of the only account."""
    return {key: _row(value) if isinstance(value, dict) else value[0] for key, value in info.items()}


register_market()
