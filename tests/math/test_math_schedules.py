from __future__ import annotations

import json
from itertools import pairwise

import pytest

from surefoot.math.entropy_decay import EntropyDecay, EntropyDecayState
from surefoot.math.schedules import Schedule, constant, cosine, linear, piecewise, progress, warmup


def values(schedule: Schedule, total: int, beyond: int = 0) -> list[float]:
    return [schedule(update, total) for update in range(total + beyond)]


def test_constant() -> None:
    assert values(constant(0.3), 3, beyond=2) == [0.3] * 5


def test_linear_starts_exactly_and_holds_its_end() -> None:
    assert values(linear(1.0, 0.0), 4, beyond=3) == [1.0, 0.75, 0.5, 0.25, 0.0, 0.0, 0.0]
    assert linear(0.1, 0.3)(0, 7) == 0.1
    assert linear(0.1, 0.3)(7, 7) == 0.3


def test_cosine_is_halfway_in_the_middle() -> None:
    schedule = cosine(1.0, 0.0)
    assert schedule(0, 4) == 1.0
    assert schedule(2, 4) == pytest.approx(0.5)
    assert schedule(1, 4) == pytest.approx(0.5 + 0.25 * 2**0.5)
    assert schedule(9, 4) == 0.0


def test_piecewise_goes_through_its_points_and_jumps() -> None:
    schedule = piecewise([(0.25, 1.0), (0.5, 3.0), (0.5, 10.0), (0.75, 0.0)])
    assert values(schedule, 8, beyond=1) == [1.0, 1.0, 1.0, 2.0, 10.0, 5.0, 0.0, 0.0, 0.0]
    assert piecewise([(0.5, 2.0)])(0, 8) == 2.0


@pytest.mark.parametrize("points", [[], [(0.5, 1.0), (0.2, 1.0)], [(-0.1, 1.0)], [(1.1, 1.0)]])
def test_piecewise_refuses_points_that_make_no_path(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match="piecewise"):
        piecewise(points)


def test_warmup_ramps_to_the_inner_schedule_without_restarting_it() -> None:
    # inner at update 4 of 8 is 4; the ramp goes 0, 1, 2, 3 and then inner 4, 3, 2, 1
    expected = [0.0, 1.0, 2.0, 3.0, 4.0, 3.0, 2.0, 1.0]
    assert values(warmup(linear(8.0, 0.0), 0.0, fraction=0.5), 8) == expected
    assert values(warmup(constant(0.1), 0.2, fraction=0.5), 4) == pytest.approx([0.2, 0.15, 0.1, 0.1])
    assert values(warmup(constant(0.1), 0.2, fraction=0.0), 2) == [0.1, 0.1]


def test_warmup_is_a_part_of_training() -> None:
    with pytest.raises(ValueError, match="fraction"):
        warmup(constant(1.0), 0.0, fraction=1.5)


def test_progress_refuses_nonsense() -> None:
    assert progress(3, 4) == 0.75
    with pytest.raises(ValueError, match="total"):
        progress(0, 0)
    with pytest.raises(ValueError, match="update"):
        linear(1.0, 0.0)(-1, 4)


def run(decay: EntropyDecay, metrics: list[float | None]) -> list[float]:
    """The coefficients of as many updates as there are metrics."""
    state, coefficients = EntropyDecayState(), []
    for metric in metrics:
        coefficients.append(decay.coefficient(state))
        state = decay.advance(state, metric)
    return coefficients


def test_entropy_decays_to_its_floor_and_stays() -> None:
    decay = EntropyDecay(start=1.0, floor=0.2, decay_updates=4)
    assert run(decay, [None] * 7) == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2])


def test_a_plateau_delays_the_decay_and_progress_resumes_it() -> None:
    decay = EntropyDecay(start=1.0, floor=0.0, decay_updates=4, plateau_window=2)
    # The window is full after the second update. 5 -> 5 no better: wait. 5 -> 6 better: go on.
    metrics: list[float | None] = [5.0, 5.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    assert run(decay, metrics) == pytest.approx([1.0, 0.75, 0.75, 0.75, 0.5, 0.25, 0.0])


def test_a_decline_is_a_plateau_and_improvement_within_tolerance_is_too() -> None:
    decay = EntropyDecay(start=1.0, floor=0.0, decay_updates=4, plateau_window=4, plateau_tolerance=0.5)
    assert decay.is_plateau((4.0, 3.0, 2.0, 1.0))
    assert decay.is_plateau((1.0, 1.0, 1.5, 1.5))
    assert not decay.is_plateau((1.0, 1.0, 1.6, 1.6))
    assert not decay.is_plateau((4.0, 3.0, 2.0))


def test_plateaus_never_raise_the_coefficient_nor_break_the_floor() -> None:
    decay = EntropyDecay(start=0.1, floor=0.01, decay_updates=10, plateau_window=3)
    plain = run(EntropyDecay(start=0.1, floor=0.01, decay_updates=10), [None] * 40)
    waiting = run(decay, [float(i % 4) for i in range(40)])
    assert all(later <= earlier for earlier, later in pairwise(waiting))
    assert all(held >= free >= 0.01 for held, free in zip(waiting, plain, strict=True))
    assert waiting[20] == 0.01


def test_a_converged_run_still_reaches_the_floor() -> None:
    decay = EntropyDecay(start=1.0, floor=0.0, decay_updates=5, plateau_window=2)
    coefficients = run(decay, [3.0] * 12)
    assert coefficients[10:] == [0.0, 0.0]
    assert coefficients[9] > 0.0


@pytest.mark.parametrize("missing", [None, float("nan"), float("inf")])
def test_updates_without_a_metric_leave_the_window_alone(missing: float | None) -> None:
    decay = EntropyDecay(start=1.0, floor=0.0, decay_updates=4, plateau_window=2)
    state = decay.advance(EntropyDecayState(history=(1.0,)), missing)
    assert state == EntropyDecayState(updates=1, delayed=0, history=(1.0,))


def test_the_state_survives_json_and_the_run_goes_on_as_before() -> None:
    decay = EntropyDecay(start=1.0, floor=0.0, decay_updates=9, plateau_window=3)
    state = EntropyDecayState()
    for metric in (1.0, 2.0, 2.0, 2.0):
        state = decay.advance(state, metric)
    restored = EntropyDecayState.from_json(json.loads(json.dumps(state.state_dict())))
    assert restored == state
    assert decay.advance(restored, 2.5) == decay.advance(state, 2.5)


def test_impossible_decays_are_refused() -> None:
    with pytest.raises(ValueError, match="floor <= start"):
        EntropyDecay(start=0.1, floor=0.2, decay_updates=4)
    with pytest.raises(ValueError, match="decay_updates"):
        EntropyDecay(start=0.2, floor=0.1, decay_updates=0)
    with pytest.raises(ValueError, match="plateau_window"):
        EntropyDecay(start=0.2, floor=0.1, decay_updates=4, plateau_window=1)
