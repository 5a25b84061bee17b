"""The market as an environment: no look-ahead, one kernel, exact resume, limits that trigger, clear errors."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from market.bars import HOUR, make_prices, with_future
from surefoot.errors import ConfigError, EnvError, EnvStateError
from surefoot.market.costs import Costs
from surefoot.market.draws import keys_of, uniform
from surefoot.market.env import Market, MarketEnv
from surefoot.market.registration import MARKET_ID, register_market
from surefoot.vector.env_state import Resumable
from surefoot.vector.gymnasium_vector import VectorEnvs

FEATURES = ["return(1)", "rsi(3)", "volatility(4)", "time_of_day", "return(1)@4h"]
LIMITED: dict[str, Any] = {"no_trade": ["03:00-06:00"], "position_limits": {"12:00-15:00": 0.5}}
COSTS = Costs(half_spread_bps=2.0, commission_minimum=1.0, borrow_rate_per_year=0.1, funding_rate_per_year=0.05)
MODES: dict[str, dict[str, Any]] = {
    "target": {},
    "window": {"window": 5, "allow_short": False, "reward": ["log_growth", "drawdown(0.01)", "turnover", "variance"]},
    "levels": {"action": "levels", "reward": "differential_sharpe", "cost": "drawdown:0.01", **LIMITED},
    "limited": {"cost": "turnover", **LIMITED},
}


def actions(market: Market, rng: np.random.Generator) -> Any:
    if isinstance(market.single_action_space, gymnasium.spaces.Discrete):
        masks = getattr(market, "action_masks", lambda: np.ones((market.num_envs, 3), bool))()
        return np.array([rng.choice(np.flatnonzero(row)) for row in masks])
    return rng.uniform(-1.1, 1.1, (market.num_envs, 1)).astype(np.float32)


def flat(value: Any) -> list[Any]:
    """All numbers of an observation, info or reward, comparable to the bit."""
    if isinstance(value, dict):
        return [(key, flat(value[key])) for key in sorted(value)]
    if isinstance(value, tuple | list):
        return [flat(x) for x in value]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [flat(x) for x in value]
    return [None if value is None else np.asarray(value).tobytes()]


def trace(market: Market, steps: int, seed: int = 3) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [flat(market.step(actions(market, rng))) for _ in range(steps)]


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_comes_later_changes_what_is_seen_or_paid_now(mode: str) -> None:  # E04
    """1,000 cuts over the modes and both kinds of data: everything after bar t is replaced, times included."""
    cuts = 0
    for ohlc in (False, True):
        prices = make_prices(90, 1, ohlc=ohlc)
        made: dict[str, Any] = {"costs": COSTS, "features": FEATURES, "random_start": False, **MODES[mode]}
        first = Market(prices, 1, **made)
        made["statistics"] = first.statistics
        start = flat(first.reset())
        steps = trace(first, 60)
        rng = np.random.default_rng(7)
        bar = first_bar(first)
        for _ in range(125):
            seen = int(rng.integers(1, 55))  # steps of which nothing may change
            other = Market(with_future(prices, bar + seen, cuts), 1, **made)
            assert flat(other.reset()) == start
            assert trace(other, seen) == steps[:seen], (mode, seen)
            cuts += 1
    assert cuts == 250


def first_bar(market: Market) -> int:
    market.reset()
    return int(market.state_dict()["bar"][0])


def test_the_cuts_would_show_a_leak() -> None:
    """The same comparison, one bar too late, must differ."""
    prices = make_prices(90, 1)
    made: dict[str, Any] = {"costs": COSTS, "features": FEATURES, "random_start": False}
    first = Market(prices, 1, **made)
    bar = first_bar(first)
    first.reset()
    steps = trace(first, 30)
    other = Market(with_future(prices, bar + 9, 0), 1, statistics=first.statistics, **made)
    other.reset()
    later = trace(other, 30)
    assert later[:9] == steps[:9]
    assert later[9] != steps[9]


def test_statistics_that_were_fitted_before_do_not_move_with_what_comes_later() -> None:
    prices = make_prices(400)
    span = (None, str(prices.closes_at[200]))
    train = Market(prices, 1, span=span, features=FEATURES)
    changed = Market(with_future(prices, 199, 5), 1, span=span, features=FEATURES)
    assert changed.statistics == train.statistics


@pytest.mark.parametrize("mode", MODES)
def test_a_batch_is_single_accounts_side_by_side(mode: str) -> None:
    prices = make_prices(200, ohlc=True)
    made: dict[str, Any] = {
        "costs": COSTS,
        "features": FEATURES,
        "episode_length": (5, 20),
        "cost_multiplier": (0.5, 3.0),
        **MODES[mode],
    }
    seeds = [11, 5, 8]
    batch = Market(prices, 3, **made)
    singles = [MarketEnv(prices, **made) for _ in seeds]
    observation, _ = batch.reset(seed=seeds)
    for i, single in enumerate(singles):
        assert single.reset(seed=seeds[i])[0].tobytes() == observation[i].tobytes()
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(60):
        if mode == "levels":
            for i, single in enumerate(singles):
                assert single.action_masks().tolist() == batch.action_masks()[i].tolist()
        chosen = actions(batch, rng)
        observation, reward, terminated, truncated, info = batch.step(chosen)
        for i, single in enumerate(singles):
            alone = single.step(chosen[i])
            done = terminated[i] or truncated[i]
            assert alone[1:4] == (reward[i], terminated[i], truncated[i])
            there = info["final_info"] if done else info
            assert alone[4]["equity"] == there["equity"][i]
            assert alone[4]["fees"]["spread"] == there["fees"]["spread"][i]
            assert alone[0].tobytes() == (info["final_obs"][i] if done else observation[i]).tobytes()
            if done:
                ended += 1
                assert single.reset()[0].tobytes() == observation[i].tobytes()
    assert ended > 6


@pytest.mark.parametrize("mode", MODES)
def test_a_saved_market_goes_on_bit_for_bit(mode: str) -> None:
    prices = make_prices(150)
    made: dict[str, Any] = {
        "costs": COSTS,
        "features": FEATURES,
        "episode_length": (5, 20),
        "cost_multiplier": (1.0, 2.0),
    }
    market = Market(prices, 4, **made, **MODES[mode])
    market.reset(seed=1)
    trace(market, 13)
    state = market.state_dict()
    expected = trace(market, 40, seed=9)
    other = Market(prices, 4, seed=77, **made, **MODES[mode])
    other.load_state_dict(state)
    assert trace(other, 40, seed=9) == expected
    assert isinstance(market, Resumable)


def test_a_state_survives_the_checkpoint_format_and_other_markets_refuse_it() -> None:
    prices = make_prices(150)
    envs = VectorEnvs(Market(prices, 4, episode_length=20))
    envs.reset(5)
    rng = np.random.default_rng(0)
    chosen = [rng.uniform(-1, 1, (4, 1)).astype(np.float32) for _ in range(50)]
    for action in chosen[:25]:
        envs.step(action)
    state = json.loads(json.dumps(envs.state_dict()))
    expected = [envs.step(action).reward.tobytes() for action in chosen[25:]]
    again = VectorEnvs(Market(prices, 4, episode_length=20, seed=9))
    again.load_state_dict(state)
    assert [again.step(action).reward.tobytes() for action in chosen[25:]] == expected
    saved = Market(prices, 4, episode_length=20).state_dict()
    with pytest.raises(EnvStateError, match="150 bars, this one has 140"):
        Market(prices.cut(slice(0, 140)), 4, episode_length=20).load_state_dict(saved)
    with pytest.raises(EnvStateError, match="another number of accounts than 5"):
        Market(prices, 5).load_state_dict(saved)
    with pytest.raises(EnvStateError, match="lacks 'peak'"):
        Market(prices, 4).load_state_dict({k: v for k, v in saved.items() if k != "peak"})


def test_seeds_reproduce_and_differ() -> None:
    prices = make_prices(400)

    def starts(market: Market, seed: int | None) -> list[int]:
        market.reset(seed=seed)
        found: list[int] = market.state_dict()["bar"].tolist()
        return found

    made = Market(prices, 32, episode_length=50, seed=4)
    first = starts(made, 7)
    assert starts(made, 7) == first
    assert starts(made, None) != first
    assert starts(made, 8) != first
    assert starts(Market(prices, 32, episode_length=50, seed=7), None) == first
    assert len(set(first)) > 20
    assert starts(Market(prices, 4, episode_length=50, random_start=False), 3) == [109] * 4


def test_episodes_are_drawn_within_the_span() -> None:
    prices = make_prices(500)
    span = (str(prices.closes_at[200]), str(prices.closes_at[300]))
    market = Market(prices, 64, span=span, episode_length=(5, 30), cost_multiplier=(0.5, 4.0))
    lengths, multipliers = set(), []
    for seed in range(20):
        market.reset(seed=seed)
        state = market.state_dict()
        assert state["bar"].min() >= 200
        assert state["end"].max() <= 299
        lengths |= set((state["end"] - state["bar"]).tolist())
        multipliers += state["multiplier"].tolist()
    assert lengths == set(range(5, 31))
    assert 0.5 <= min(multipliers) < 0.55
    assert 3.7 < max(multipliers) < 4.0
    assert np.mean(np.array(multipliers) < np.sqrt(2.0)) == pytest.approx(0.5, abs=0.05)


def test_without_a_length_accounts_spread_over_the_span_and_then_go_through_all_of_it() -> None:
    market = Market(make_prices(150), 16, features=["return(1)"])
    market.reset()
    begun = market.state_dict()
    assert len(set(begun["bar"].tolist())) > 8
    assert set(begun["end"].tolist()) == {149}
    ended = np.zeros(16, bool)
    for _ in range(149):
        _, _, terminated, truncated, _ = market.step(np.zeros((16, 1), np.float32))
        ended |= truncated
        assert not terminated.any()
    assert ended.all()
    assert set(market.state_dict()["start"].tolist()) == {1}


def test_higher_multipliers_cost_more() -> None:
    flat_prices = replace(make_prices(150), close=np.full(150, 10.0))
    market = Market(flat_prices, 64, costs=Costs(half_spread_bps=10.0), cost_multiplier=(0.5, 2.0), episode_length=9)
    market.reset(seed=0)
    info = market.step(np.ones((64, 1), np.float32))[4]
    rate = 10e-4 * market.state_dict()["multiplier"]
    assert info["fees"]["spread"] == pytest.approx(10_000.0 * rate / (1.0 + rate))


def test_the_single_env_passes_gymnasium_s_checker() -> None:
    for made in ({}, MODES["levels"]):
        env = MarketEnv(make_prices(200), **made)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(env, skip_render_check=True)


def test_sb3_takes_it_unchanged() -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_checker import check_env as sb3_check

    env = MarketEnv(make_prices(400), episode_length=50)
    sb3_check(env)
    agent = sb3.PPO("MlpPolicy", env, n_steps=64, batch_size=32, n_epochs=1, seed=0, device="cpu")
    agent.learn(256)
    assert agent.num_timesteps >= 256


def test_the_id_makes_one_account_or_many() -> None:
    register_market()
    register_market()
    prices = make_prices(300)
    env = gymnasium.make(MARKET_ID, prices=prices, episode_length=20)
    assert isinstance(env.unwrapped, MarketEnv)
    env.reset(seed=0)
    env.step(env.action_space.sample())
    many = gymnasium.make_vec(MARKET_ID, 8, vectorization_mode="vector_entry_point", prices=prices, window=3)
    assert isinstance(many, Market)
    assert many.num_envs == 8
    assert many.reset(seed=0)[0].shape == (8, 3 * 8 + 3)
    with pytest.raises(ConfigError, match="either data= "):
        gymnasium.make(MARKET_ID)


@pytest.mark.parametrize("how", ["import gymnasium, surefoot.market", "from surefoot.market import Market"])
def test_importing_the_package_is_enough_for_the_id(how: str) -> None:
    script = f"{how}\nimport gymnasium\nprint(gymnasium.spec('surefoot/Market-v0').id)"
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert told.stdout.strip() == MARKET_ID, told.stderr


def test_the_library_steps_it_as_true_transitions() -> None:
    market = Market(make_prices(150), 3, episode_length=4, features=["return(1)"])
    assert market.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    envs = VectorEnvs(market)
    envs.reset(0)
    for i in range(8):
        step = envs.step(np.ones((3, 1), np.float32))
        assert step.valid.all()
        assert step.truncated.all() == (i % 4 == 3)
        time_left = step.observation["obs"][:, -1]
        if i % 4 == 3:
            assert [step.final[k]["obs"][-1] for k in range(3)] == [0.0, 0.0, 0.0]
            assert time_left.tolist() == [1.0] * 3
            assert [info["position"] for info in step.infos] == pytest.approx([1.0] * 3)


def test_an_account_that_starts_anew_tells_of_its_start_and_the_last_info_of_its_end() -> None:
    market = Market(make_prices(300), 3, episode_length=4, features=["return(1)"], cost="exposure")
    _, started = market.reset(seed=0)
    for _ in range(4):
        info = market.step(np.ones((3, 1), np.float32))[4]
    assert set(started) == set(info) - {"final_obs", "_final_obs", "final_info", "_final_info"}
    assert info["_final_info"].all()
    assert info["final_info"]["position"] == pytest.approx(np.ones(3))
    assert info["final_info"]["cost"] == pytest.approx(np.ones(3))
    for key in ("position", "units", "turnover", "drawdown", "cost", "limited"):
        assert not info[key].any(), key
    assert not any(column.any() for key in ("fees", "rewards") for column in info[key].values())
    assert info["equity"].tolist() == info["cash"].tolist() == [10_000.0] * 3
    state = market.state_dict()
    assert (info["time"] == market.prices.closes_at[state["start"]]).all()
    assert (info["final_info"]["time"] != info["time"]).all()


def test_no_two_draws_are_the_same() -> None:
    keys = keys_of(3, 50)
    drawn = np.array([uniform(keys, np.full(50, k), place) for k in range(20) for place in range(3)])
    assert len(np.unique(drawn)) == drawn.size
    assert drawn.mean() == pytest.approx(0.5, abs=0.02)
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert np.abs(np.corrcoef(drawn[0::3].ravel(), drawn[1::3].ravel())[0, 1]) < 0.1
    assert keys_of([3, 4], 2)[0] == keys[0]


def test_what_is_observed_is_the_features_up_to_the_last_close_and_the_account() -> None:
    prices = make_prices(100)
    market = Market(prices, 2, window=3, features=["return(1)", "volatility(4)"], random_start=False, costs=Costs())
    one_row = Market(prices, 2, window=1, features=["return(1)", "volatility(4)"], random_start=False, costs=Costs())
    observation, _ = market.reset()
    row, _ = one_row.reset()
    assert market.observation_columns[:3] == ("return(1)[-2]", "volatility(4)[-2]", "return(1)[-1]")
    assert market.observation_columns[-3:] == ("position", "drawdown", "time_left")
    for _ in range(2):  # the other starts two bars earlier, having no window to fill
        row = one_row.step(np.zeros((2, 1), np.float32))[0]
    assert observation[:, 4:6].tobytes() == row[:, :2].tobytes()
    logs = np.log(prices.close[4:7] / prices.close[3:6])  # features are ready at bar 4, so the window ends at bar 6
    scaled = (logs - market.statistics.mean[0]) / market.statistics.std[0]
    assert observation[0, [0, 2, 4]] == pytest.approx(scaled, rel=1e-5)
    observation, _, _, _, info = market.step(np.array([[0.5], [-1.0]], np.float32))
    assert observation[:, -3] == pytest.approx([0.5, -1.0])
    assert observation[:, -1] == pytest.approx(1.0 - 1.0 / (99 - 6))
    for _ in range(20):
        observation, _, _, _, info = market.step(np.array([[0.5], [-1.0]], np.float32))
        assert observation[:, -2] == pytest.approx(info["drawdown"])


def test_infos_that_were_given_do_not_change_later() -> None:
    market = Market(make_prices(300), 4, episode_length=5, action="levels", **LIMITED)
    rng = np.random.default_rng(0)
    kept = [market.reset(seed=0)]
    before = [flat(kept[0])]
    for _ in range(12):
        stepped = market.step(actions(market, rng))
        kept.append(stepped)  # type: ignore[arg-type]  # reset and step give different tuples
        before.append(flat(stepped))
    assert [flat(x) for x in kept] == before


# Limits (E07)


def hours(info: dict[str, Any]) -> Any:
    return (info["time"] - info["time"].astype("datetime64[D]")).astype("timedelta64[h]").astype(int)


def test_no_trade_windows_hold_the_position_and_are_told() -> None:
    prices = make_prices(300, step=HOUR)
    market = Market(prices, 1, no_trade=["03:00-06:00"], costs=Costs(), random_start=False, features=["return(1)"])
    _, info = market.reset()
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        decided, units = int(hours(info)[0]), info["units"][0]
        observation, _, _, _, info = market.step(rng.uniform(-1, 1, (1, 1)).astype(np.float32))
        if 3 <= decided < 6:
            held += 1
            assert info["units"][0] == units
            assert info["limited"][0]
            assert info["fees"]["spread"][0] == 0.0
        else:
            assert info["units"][0] != units
            assert not info["limited"][0]
        assert observation[0, -1] == float(not 3 <= int(hours(info)[0]) < 6)  # may_trade
    assert held >= 12


def test_position_limits_clip_targets_and_are_told() -> None:
    market = Market(
        make_prices(300), 1, position_limits={"always": 0.8, "12:00-15:00": 0.25}, costs=Costs(), features=["return(1)"]
    )
    _, info = market.reset(seed=1)
    for target in [1.0, -1.0, 0.1] * 20:
        limit = 0.25 if 12 <= int(hours(info)[0]) < 15 else 0.8
        observation, _, _, _, info = market.step(np.array([[target]], np.float32))
        assert info["position"][0] == pytest.approx(np.clip(float(np.float32(target)), -limit, limit), abs=1e-9)
        assert info["limited"][0] == (abs(target) > limit)
        assert observation[0, -1] == pytest.approx(0.25 if 12 <= int(hours(info)[0]) < 15 else 0.8)


def test_limits_of_levels_are_masks() -> None:
    market = Market(make_prices(300), 1, action="levels", costs=Costs(), features=["return(1)"], **LIMITED)
    _, info = market.reset(seed=1)
    half = Market(make_prices(300), 1, action="levels", levels=(0.0, 0.5, 1.0), position_limits={"always": 0.5})
    assert half.reset()[1]["action_mask"].tolist() == [[True, True, False]]
    level = 1
    for chosen in [0, 2, 1] * 30:
        hour = int(hours(info)[0])
        expected = [True] * 3
        if 3 <= hour < 6:
            expected = [i == level for i in range(3)]
        elif 12 <= hour < 15:
            expected = [False, True, False]
        assert market.action_masks().tolist() == [expected] == info["action_mask"].tolist()
        action = chosen if expected[chosen] else expected.index(True)
        info = market.step(np.array([action]))[4]
        assert not info["limited"][0]
        level = action


def test_a_level_against_the_mask_is_not_carried_out() -> None:
    market = Market(make_prices(300), 1, action="levels", costs=Costs(), features=["return(1)"], no_trade=["always"])
    market.reset(seed=1)
    info = market.step(np.array([2]))[4]
    assert info["limited"][0]
    assert info["position"][0] == 0.0
    assert info["action_mask"].tolist() == [[False, True, False]]


def test_without_limits_there_are_no_masks() -> None:
    assert not hasattr(Market(make_prices(200), 1, action="levels"), "action_masks")
    assert not hasattr(Market(make_prices(200), 1, **LIMITED), "action_masks")
    assert not hasattr(MarketEnv(make_prices(200)), "action_masks")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"windw": 3}, "did you mean 'window'"),
        ({"window": 0}, "window = 0"),
        ({"span": ("2020-01-02", "2020-01-03")}, "looks 62 bars back.*take a longer span"),
        ({"span": ("2020-01-02", "2020-01-03"), "window": 60, "features": ["return(1)"]}, "too short: it has 24 bars"),
        ({"span": ("2021", "2022")}, "has no bars: the bars close from 2020-01-01T01"),
        ({"span": ("soon", None)}, "cannot be read"),
        ({"features": ["rsj(14)"]}, "did you mean 'rsi'"),
        ({"features": ["volume_zscore(5)"]}, "needs volume"),
        ({"features": ["atr(5)"]}, "needs open, high and low"),
        ({"costs": {"comission_bps": 1.0}}, "did you mean 'commission_bps'"),
        ({"costs": Costs(half_spread_bps=6000.0)}, "ruin an account at once.*120.0%"),
        ({"costs": Costs(commission_minimum=5000.0)}, "ruin an account at once"),
        ({"costs": Costs(commission_per_unit=60.0)}, "ruin an account at once"),
        ({"costs": Costs(half_spread_bps=400.0), "cost_multiplier": (1.0, 20.0)}, "ruin an account at once"),
        ({"action": "tarjet"}, "did you mean 'target'"),
        ({"action": "levels", "levels": (-1.0, 1.0)}, "must have 0"),
        ({"action": "levels", "levels": (0.0, 2.0)}, "2.0 is no fraction"),
        ({"action": "levels", "allow_short": False}, "allow_short is False"),
        ({"reward": "log_grwth"}, "did you mean 'log_growth'"),
        ({"reward": ["log_growth", "log_growth"]}, "each once"),
        ({"reward": []}, "one or more"),
        ({"cost": "drawdwn:0.1"}, "did you mean 'drawdown'"),
        ({"cost": "drawdown:2"}, "must be in"),
        ({"episode_length": 500}, "longer than the span"),
        ({"episode_length": -1}, "at least 1"),
        ({"episode_length": 2.5}, "must be an integer"),
        ({"no_trade": ["25:00-26:00"]}, "after 24:00"),
        ({"no_trade": "03:00-04:00"}, "must be a list"),
        ({"no_trade": ["fry 10:00-11:00"]}, "none of mon"),
        ({"no_trade": ["at night"]}, "cannot be read"),
        ({"position_limits": {"always": 2.0}}, "between 0 and 1"),
        ({"cost_multiplier": (2.0, 1.0)}, "0 < low"),
        ({"ruin": 1.0}, "ruin = 1.0"),
        ({"capital": 0.0}, "capital = 0.0"),
        ({"num_envs": 0}, "num_envs = 0"),
        ({"window": 280}, "too short"),
    ],
)
def test_mistakes_are_named_before_anything_is_stepped(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Market(make_prices(300), **settings)


def test_bad_costs_are_named() -> None:
    with pytest.raises(ConfigError, match="slippage_bps is -1"):
        Costs(slippage_bps=-1.0)
    with pytest.raises(ConfigError, match="finite number"):
        Costs(commission_bps=float("nan"))


def test_bad_actions_are_named() -> None:
    market = Market(make_prices(200), 3)
    with pytest.raises(gymnasium.error.ResetNeeded):
        market.step(np.zeros((3, 1), np.float32))
    market.reset()
    with pytest.raises(EnvError, match="account 1 is nan"):
        market.step(np.array([[0.0], [np.nan], [0.0]], np.float32))
    with pytest.raises(EnvError, match="account 2 is inf"):
        market.step(np.array([[0.0], [1.0], [np.inf]], np.float32))
    with pytest.raises(EnvError, match=r"shape \(3,\), 3 accounts need \(3, 1\)"):
        market.step(np.zeros(3, np.float32))
    levels = Market(make_prices(200), 3, action="levels")
    levels.reset()
    for wrong, text in (([0, 3, 1], "account 1 is 3"), ([0, -1, 1], "account 1 is -1"), ([0.0, 1.0, 1.0], "float64")):
        with pytest.raises(EnvError, match=text):
            levels.step(np.array(wrong))
    single = MarketEnv(make_prices(200), episode_length=1)
    single.reset()
    single.step(np.zeros(1, np.float32))
    with pytest.raises(gymnasium.error.ResetNeeded):
        single.step(np.zeros(1, np.float32))
