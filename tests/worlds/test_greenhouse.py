"""The factored world: what is legal, what matters, what pays."""

from __future__ import annotations

from typing import Any

import numpy as np

from surefoot.worlds import Greenhouse

WAIT, PLANT, PRUNE = range(3)


def with_order(env: Greenhouse, order: list[int], planted: list[bool]) -> None:
    state = env.state_dict()
    env.load_state_dict(state | {"world": {"planted": planted, "order": order, "steps": 0}})


def reward_of(env: Greenhouse, order: list[int], planted: list[bool], action: Any) -> float:
    with_order(env, order, planted)
    return float(env.step(np.array(action))[1])


def test_the_reward_is_the_share_of_the_order_that_was_done() -> None:
    env = Greenhouse()
    env.reset(seed=0)
    empty = [False, False, False]
    assert reward_of(env, [PLANT, 1, 2], empty, [PLANT, 1, 2]) == 1.0
    assert reward_of(env, [PLANT, 1, 2], empty, [PLANT, 1, 0]) == 2 / 3
    assert reward_of(env, [PLANT, 1, 2], empty, [PLANT, 0, 0]) == 1 / 3
    assert reward_of(env, [PLANT, 1, 2], empty, [WAIT, 1, 2]) == 0.0
    assert reward_of(env, [PLANT, 1, 2], [True, False, False], [PLANT, 0, 2]) == 0.0, "the slot is planted"
    assert reward_of(env, [PRUNE, 0, 0], [True, False, False], [PRUNE, 0, 3]) == 1.0, "no kind matters here"
    assert reward_of(env, [WAIT, 0, 0], empty, [WAIT, 2, 3]) == 1.0


def test_planting_and_pruning_stay_whatever_was_ordered() -> None:
    env = Greenhouse()
    env.reset(seed=0)
    with_order(env, [WAIT, 0, 0], [False, False, False])
    assert env.step(np.array([PLANT, 1, 0]))[0][-3:].tolist() == [0, 1, 0]
    assert env.step(np.array([PLANT, 1, 0]))[0][-3:].tolist() == [0, 1, 0], "illegal: it is planted"
    assert env.step(np.array([PRUNE, 0, 0]))[0][-3:].tolist() == [0, 1, 0], "illegal: nothing grows there"
    assert env.step(np.array([PRUNE, 1, 0]))[0][-3:].tolist() == [0, 0, 0]


def test_masks_depend_on_the_operation() -> None:
    env = Greenhouse()
    env.reset(seed=0)
    with_order(env, [WAIT, 0, 0], [True, False, True])
    masks = env.action_masks()
    assert masks["op"].tolist() == [True, True, True]
    assert masks["slot"].tolist() == [[True] * 3, [False, True, False], [True, False, True]]
    with_order(env, [WAIT, 0, 0], [False, False, False])
    assert env.action_masks()["op"].tolist() == [True, True, False]


def test_the_flat_mask_allows_the_same_actions() -> None:
    factored, flat = Greenhouse(n_dials=1), Greenhouse(n_dials=1, flat=True)
    for env in (factored, flat):
        env.reset(seed=0)
        with_order(env, [WAIT, 0, 0, 0], [True, False, True])
    masks, sizes = factored.action_masks(), (3, 3, 4, 3)
    legal = [masks["op"][op] and masks["slot"][op, slot] for op, slot, _, _ in np.ndindex(sizes)]
    assert flat.action_masks().tolist() == legal
    assert flat.action_heads is None


def test_every_order_can_be_carried_out() -> None:
    env = Greenhouse(n_slots=2, n_dials=5)
    observation, _ = env.reset(seed=0)
    env.action_space.seed(0)
    sizes = [3, 2, 4, 3, 3, 3, 3, 3]
    for _ in range(500):
        order = [int(np.argmax(part)) for part in np.split(observation[: sum(sizes)], np.cumsum(sizes)[:-1])]
        masks = env.action_masks()
        assert masks["op"][order[0]]
        assert masks["slot"][order[0], order[1]] or order[0] == WAIT
        observation, _, _, truncated, _ = env.step(env.action_space.sample())
        if truncated:
            observation, _ = env.reset()
