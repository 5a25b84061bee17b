"""The return of an open episode: what rollouts, networks and evaluations know of it (R08)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from algo.building import iterate, learner_on, make_learner
from surefoot.algo.estimate import steps_of
from surefoot.spaces import CONTEXT_LEAF
from surefoot.train.evaluation import evaluate
from vector.worlds import SCRIPT, SOURCES, Scripted, located, open_envs, reward_at

DISCOUNT = 0.5
LIMITS: dict[str, dict[str, Any]] = {"plain": {"limit_per_episode": 0.0}, "discounted": {"limit_discounted": 0.0}}


def settings(limit: str = "plain", **more: Any) -> dict[str, Any]:
    return {
        "gamma": DISCOUNT,
        "n_steps": 7,
        "batch_size": 14,
        "risk": {"kind": "cvar_constraint", "alpha": 0.5, **LIMITS[limit], **more},
    }


def earned(number: int, episode: int, step: int, discount: float) -> float:
    """What an episode of `Scripted` has earned before a step, recounted."""
    return sum(discount**k * reward_at(number, episode, k) for k in range(step))


def seen(x: float, weight: float, origin: float, scale: float, discount: float) -> list[float]:
    """What networks shall see of it."""
    z = (x - origin) / scale
    return [z, min(z, 0.0)] if discount == 1.0 else [z, min(z, 0.0), weight]


@pytest.mark.filterwarnings("ignore:an update rests on about", "ignore:.*Open episodes are not saved")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("source", SOURCES)
def test_every_step_and_every_successor_is_seen_with_what_its_episode_has_earned(source: str, limit: str) -> None:
    """However envs reset, however episodes end and wherever rollouts cut them; observations tell where they are."""
    discount = 1.0 if limit == "plain" else DISCOUNT
    learner = learner_on(open_envs(source, [partial(Scripted, number) for number in range(2)]), **settings(limit))
    context = learner.parts.context
    assert context is not None
    n_finals = 0
    for _ in range(5):
        context.set_unit(1.0, 32.0)
        rollout = learner.collect()
        for t, n in np.argwhere(rollout.valid.numpy()).tolist():
            where = located("box", {"obs": rollout.observation["obs"][t, n]})
            x, weight = earned(*where, discount), discount ** where[2]
            assert float(rollout.running[t, n]) == pytest.approx(x)
            assert float(rollout.weight[t, n]) == pytest.approx(weight)
            shown = rollout.observation[CONTEXT_LEAF][t, n].tolist()
            assert shown == pytest.approx(seen(x, weight, 1.0, 32.0, discount))
        for i in range(len(rollout.final)):
            row = rollout.final.observation[CONTEXT_LEAF][i]
            where = located("box", {"obs": rollout.final.observation["obs"][i]})
            x, weight = earned(*where, discount), discount ** where[2]
            assert row.tolist() == pytest.approx(seen(x, weight, 1.0, 32.0, discount))
            n_finals += 1
    assert n_finals > 3


@pytest.mark.filterwarnings("ignore:an update rests on about", "ignore:.*Open episodes are not saved")
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("source", SOURCES)
def test_an_evaluation_shows_the_policy_what_its_episode_has_earned(
    source: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    discount = 1.0 if limit == "plain" else DISCOUNT
    factories = [partial(Scripted, number) for number in range(2)]
    learner = learner_on(open_envs(source, factories), **settings(limit, observe_return=True))
    assert learner.parts.context is not None
    learner.parts.context.set_unit(1.0, 32.0)
    told: list[tuple[Any, Any]] = []
    act = type(learner.actor).__call__

    def watched(actor: Any, observation: Any, *rest: Any, **named: Any) -> Any:
        told.extend(zip(observation["obs"], rest[-1], strict=True))
        return act(actor, observation, *rest, **named)

    monkeypatch.setattr(type(learner.actor), "__call__", watched)
    found = evaluate(learner, open_envs(source, factories), 10, 0, deterministic=True)
    checked = 0
    for observation, row in told:
        number, episode, step = located("box", {"obs": observation})
        if step == SCRIPT[episode % len(SCRIPT)].length:  # only a reset follows, where that is a step of its own
            continue
        x, weight = earned(number, episode, step, discount), discount**step
        assert row.tolist() == pytest.approx(seen(x, weight, 1.0, 32.0, discount))
        checked += 1
    assert checked >= sum(found.lengths)


def test_the_critic_of_the_shortfall_sees_it_and_the_critic_of_the_return_does_not() -> None:
    learner = make_learner(Scripted, **settings())
    iterate(learner, 1)
    rows = {"obs": torch.zeros(2, 3), CONTEXT_LEAF: torch.tensor([[0.0, 0.0], [-1.0, -1.0]])}
    critic, prediction = learner.policy.critic, learner.policy.prediction(rows)
    assert torch.equal(critic.mean(prediction)[0], critic.mean(prediction)[1])
    shortfall = critic.mean_auxiliary(prediction)  # type: ignore[operator]
    assert not torch.equal(shortfall[0], shortfall[1])


@pytest.mark.filterwarnings("ignore:an update rests on about")
def test_the_threshold_and_the_unit_move_after_an_update_and_not_before() -> None:
    learner = make_learner(Scripted, **settings())
    iterate(learner, 2, total=4)
    term, context = learner.risk, learner.parts.context
    assert term is not None
    assert context is not None
    before = term.unit
    assert before is not None
    rollout = learner.collect()
    signal = term.signal(steps_of(rollout))
    learner._observe(rollout, 0.1)
    assert torch.equal(term.signal(steps_of(rollout)), signal)
    assert context.origin == before.origin
    learner.learn(rollout, 4)
    after = term.unit
    assert after is not None
    assert after.origin != before.origin
    assert (context.origin, context.scale) == after


@pytest.mark.filterwarnings("ignore:.*Open episodes are not saved")
def test_rows_that_only_reset_are_no_steps_of_a_limit_per_step() -> None:
    factories = [partial(Scripted, number) for number in range(2)]
    envs = open_envs("next-step", factories)
    learner = learner_on(envs, n_steps=14, batch_size=28, risk={"kind": "cvar_constraint", "limit_per_step": 0.0})
    rollout = learner.collect()
    assert not bool(rollout.valid.all())
    assert learner.risk is not None
    metrics = learner.risk.observe(steps_of(rollout), 0.0)
    assert metrics["risk/sample"] == float(rollout.valid.sum())
