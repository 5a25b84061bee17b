"""From prices to a trained agent: checked data, spans by time, early stopping, and what was found out of sample.

The prices are generated, so that it runs anywhere and the answer is known: a column `signal` tells the drift of the
next bar. Give the path of a CSV file, or the name of a data set such as `sp500`, to train on other prices. Prints the
spans, the growth of equity on the validation span before and after training, and what following the signal would earn.
"""

from __future__ import annotations

import argparse
from typing import Any

from surefoot import PPO
from surefoot.market import Market, load_prices, split
from surefoot.market.generators import is_generated, planted_signal_follower
from surefoot.train.callbacks import EvaluationCallback

TIMESTEPS = 100_000
DATA = "generated:planted_signal(seed=0, bars=10000, ohlc=True)"


def main(timesteps: int = TIMESTEPS, data: str = DATA) -> None:
    prices = load_prices(data)
    spans = split(prices, (0.6, 0.2, 0.2))
    for name, (start, end) in spans.named().items():
        print(f"{name}: {start} to {end}")

    settings: dict[str, Any] = dict(costs=dict(half_spread_bps=1.0, commission_bps=0.5), action="levels")
    if is_generated(prices.source):
        settings |= dict(features=["column('signal')", "return(1)", "volatility(20)"])
    train = Market(prices, num_envs=64, span=spans.train, episode_length=250, **settings)
    # The same statistics of features, a single walk through the whole span.
    validation = Market(
        prices, num_envs=1, span=spans.validation, statistics=train.statistics, random_start=False, **settings
    )

    agent = PPO(train, n_steps=64, batch_size=1024, n_epochs=4, gamma=0.9, learning_rate="linear(1e-3, 0)", seed=0)
    before = agent.evaluate(1, env=validation).mean
    stop = EvaluationCallback(every=max(1, timesteps // 10), n_episodes=1, env=validation, patience=5)
    agent.learn(timesteps, callback=stop)
    print(f"growth on the validation span before training: {before:+.3f}, after: {stop.best:+.3f}")
    if is_generated(prices.source):
        bars = prices.between(*spans.validation)
        known = planted_signal_follower(cost_rate=1.5e-4).growth * (bars.stop - bars.start)
        print(f"following the signal can be expected to earn {known:+.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--timesteps", type=int, default=TIMESTEPS)
    parser.add_argument("--data", default=DATA)
    given = parser.parse_args()
    main(given.timesteps, given.data)
