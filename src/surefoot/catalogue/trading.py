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
        tests=(
            "tests/market/test_accounting.py::test_a_flat_market_pays_nothing_and_charges_only_costs",
            "tests/market/test_rewards.py::test_turnover_is_felt_at_what_it_costs",
            "tests/market/test_rewards.py::test_trading_pays_on_a_planted_signal_and_costs_where_there_is_none",
            "tests/train/test_market_learning.py::test_a_planted_signal_is_followed_and_none_is_not_invented",
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
        tests=(
            "tests/market/test_accounting.py::test_every_change_of_equity_is_accounted_for",
            "tests/market/test_accounting.py::test_the_kernel_equals_its_slow_twin",
            "tests/market/test_accounting.py::test_borrow_accrues_with_elapsed_time_by_hand",
            "tests/market/test_accounting.py::test_fees_of_trading_never_make_cash_negative",
        ),
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
        tests=(
            "tests/market/test_accounting.py::test_close_only_data_fill_at_the_next_close",
            "tests/market/test_accounting.py::test_ohlc_data_fill_at_the_next_open_and_are_marked_at_the_close",
            "tests/market/test_reading.py::test_a_daily_bar_is_known_when_its_session_is_over",
        ),
        planned="the control run with one bar of delay",
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
        tests=(
            "tests/market/test_market.py::test_nothing_that_comes_later_changes_what_is_seen_or_paid_now",
            "tests/market/test_market.py::test_the_cuts_would_show_a_leak",
            "tests/market/test_features.py::test_values_do_not_depend_on_what_comes_later",
            "tests/market/test_features.py::test_statistics_are_those_of_the_training_span_only",
            "tests/cli/test_market_training.py::test_spans_follow_one_another_and_their_dates_are_printed",
        ),
    ),
    Row(
        id="E05",
        name="visible-prices",
        verdict="real",
        holds="Each column is scaled by its own past, so that float32 observations resolve the moves of prices.",
        why="At a price of 60,000 float32 has steps of 0.004; on one common scale small columns vanish altogether.",
        tests=("tests/market/test_features.py::test_the_smallest_move_is_seen",),
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
        tests=(
            "tests/market/test_features.py::test_bar_by_bar_gives_the_same_bytes_as_the_whole_series",
            "tests/market/test_features.py::test_statistics_survive_json_exactly",
            "tests/cli/test_market_training.py::test_evaluations_are_of_the_validation_span_with_training_s_statistics",
        ),
        planned="backtest and live use",
    ),
    Row(
        id="E07",
        name="risk-manager-fires",
        verdict="real",
        holds="Risk limits act on simulated time, and tests make each of them trigger.",
        why="A daily limit that goes by the computer's clock never fires in a backtest that takes a minute.",
        tests=(
            "tests/market/test_market.py::test_no_trade_windows_hold_the_position_and_are_told",
            "tests/market/test_market.py::test_position_limits_clip_targets_and_are_told",
            "tests/market/test_market.py::test_limits_of_levels_are_masks",
        ),
        planned="limits on losses",
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
        tests=("tests/market/test_accounting.py::test_time_is_only_that_of_the_data",),
        planned="metrics of trading",
    ),
)
