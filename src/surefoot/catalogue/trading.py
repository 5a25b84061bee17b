"""Rows about market environments and the figures that judge them."""

from surefoot.catalogue.row import Row

ROWS = (
    Row(
        id="E01",
        name="reward-units",
        verdict="real",
        holds=(
            "The change of equity has paid the costs already; a turnover term uses cost rates and does not charge them "
            "twice. A flat market without an action has reward 0. On a planted signal trading is optimal, and without "
            "one not trading is."
        ),
        why=(
            "A penalty in another unit than the profit decides everything: the agent never trades, or trades at every "
            "step, whatever the market does."
        ),
    ),
    Row(
        id="E02",
        name="accounting",
        verdict="real",
        holds=(
            "The change of equity is the profit from prices less every line of costs, to 1e-9, under random actions. "
            "Borrowing and funding cost by the time that passes. A fee never makes cash negative."
        ),
        why="Money that appears or vanishes in the books is the first thing that an agent learns to exploit.",
        formula="Δequity = Σ position·Δprice − fees − slippage − borrow − funding",
    ),
    Row(
        id="E03",
        name="timing",
        verdict="real",
        holds=(
            "A decision at the close of bar t is filled at the next open (at the next close if there are only closes) "
            "and valued afterwards. A control run with one bar of delay is reported beside it."
        ),
        why="A fill at the price that the decision was based on is a profit that nobody can make.",
    ),
    Row(
        id="E04",
        name="no-look-ahead",
        verdict="real",
        holds="Changing all data after t leaves every observation, reward and feature up to t equal, bit for bit.",
        why=(
            "Statistics over the whole file, centred windows or values filled in from later bars tell the agent the "
            "future. The backtest is excellent and the live result is not."
        ),
    ),
    Row(
        id="E05",
        name="visible-prices",
        verdict="real",
        holds="Each column is scaled by its own past, so that float32 observations resolve the moves of prices.",
        why="At a price of 60,000 float32 has steps of 0.004; on one common scale small columns vanish altogether.",
    ),
    Row(
        id="E06",
        name="one-pipeline",
        verdict="real",
        holds=(
            "Training, backtest and live use make observations by one function with the saved statistics, equal byte "
            "for byte."
        ),
        why="A second version of the features differs somewhere, and the live agent acts on inputs that it never saw.",
    ),
    Row(
        id="E07",
        name="risk-manager-fires",
        verdict="real",
        holds="Risk limits act on simulated time, and tests make each of them trigger.",
        why="A daily limit that goes by the computer's clock never fires in a backtest that takes a minute.",
    ),
    Row(
        id="E08",
        name="honest-metrics",
        verdict="real",
        holds=(
            "Periods per year come from the calendar of the data. Sortino uses the downside deviation. Each trade is "
            "counted once. Intervals come from a block bootstrap."
        ),
        why=(
            "A Sharpe ratio with 252 periods on minute bars, or a Sortino with the std of the losing trades, flatters. "
            "Without intervals luck looks like skill."
        ),
        formula="Sortino = mean(r) / sqrt(mean(min(r, 0)²))·sqrt(periods per year)",
    ),
    Row(
        id="E09",
        name="simulated-time",
        verdict="real",
        holds="No clock of the computer is read in simulation or metrics.",
        why="Results that depend on the hour of the run, or on its speed, cannot be repeated.",
    ),
)
