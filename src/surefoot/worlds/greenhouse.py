"""A factored world: an operation, a slot, a kind and dials, most of which matter only for some operations."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from surefoot.actions.heads import HeadSpec
from surefoot.worlds.toy import ToyEnv

Array = np.ndarray[Any, Any]

WAIT, PLANT, PRUNE = range(3)
OPERATIONS = ("WAIT", "PLANT", "PRUNE")
DIALS = {"water": "PLANT", "light": "PLANT", "heat": "PLANT", "feed": "PLANT", "trim": "PRUNE"}
"""Each dial and the operation for which it matters."""


class Greenhouse(ToyEnv[Array, Any]):
    """Each step shows an order that can be carried out: wait, plant a kind in an empty slot, or prune a planted one.

    Heads are ``op``, ``slot`` (for PLANT and PRUNE), ``kind`` (for PLANT) and up to five dials of `n_levels`: eight in
    all. The reward is the share of the order's heads that were done right, or 0 with another operation or an illegal
    slot. What is planted and pruned stays so, whatever was ordered; an illegal slot changes nothing. The next order is
    one of the operations that are possible then, with equal chances, and uniform in the rest. The entries of heads that
    do not matter for the operation are not read (F07). Episodes are cut after `episode_length` steps.

    The observation is the order as joined one-hots (zeros for heads that do not matter), then which slots are planted.
    `action_masks` depend on the operation: empty slots for PLANT, planted ones for PRUNE. With ``flat`` the same
    choices are one Discrete action over the product of all heads.

    *The optimum* is to carry out every order: 1 per step. The random return is exact, from the chain of the number of
    planted slots.
    """

    changing = ("planted", "order", "steps")

    def __init__(
        self,
        n_slots: int = 3,
        n_kinds: int = 4,
        n_dials: int = 0,
        n_levels: int = 3,
        episode_length: int = 32,
        flat: bool = False,
    ) -> None:
        dials = dict(list(DIALS.items())[:n_dials])
        heads = [
            HeadSpec("op", OPERATIONS),
            HeadSpec("slot", n_slots, relevant_when={"op": ("PLANT", "PRUNE")}),
            HeadSpec("kind", n_kinds, relevant_when={"op": "PLANT"}),
            *(HeadSpec(name, n_levels, relevant_when={"op": operation}) for name, operation in dials.items()),
        ]
        self._sizes = np.array([head.size for head in heads])
        self._first = np.cumsum(self._sizes) - self._sizes
        users = [("PLANT",), ("PLANT", "PRUNE"), ("PLANT",), *((operation,) for operation in dials.values())]
        self._matters = np.array([[op in ops for ops in users] for op in OPERATIONS])
        self._matters[:, 0] = True
        self._n_slots, self._episode_length, self._flat = n_slots, episode_length, flat
        self._planted = np.zeros(n_slots, np.bool_)
        self._order = np.zeros(len(heads), np.int64)
        self._steps = 0
        self.action_heads = None if flat else tuple(heads)
        self.action_space = spaces.Discrete(int(self._sizes.prod())) if flat else spaces.MultiDiscrete(self._sizes)
        width = int(self._sizes.sum()) + n_slots
        self.observation_space = spaces.Box(0.0, 1.0, (width,), np.float32)
        self.optimal_return = float(episode_length)
        self.random_return = self._random_return()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        self._planted[:] = False
        self._draw()
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        done = np.array(np.unravel_index(action, self._sizes) if self._flat else action, np.int64)
        operation, slot = done[0], done[1]
        legal = bool(operation == WAIT or self._planted[slot] == (operation == PRUNE))
        reward = 0.0
        if legal and operation == self._order[0]:
            matters = self._matters[operation]
            reward = float((done == self._order)[matters].mean())
        if legal and operation != WAIT:
            self._planted[slot] = operation == PLANT
        self._steps += 1
        self._draw()
        return self._observe(), reward, False, self._steps >= self._episode_length, {}

    def action_masks(self) -> Any:
        """Legal choices by head, those of the slot for each operation; with ``flat`` of the whole product."""
        slots = np.stack([np.ones_like(self._planted), ~self._planted, self._planted])
        if not self._flat:
            return {"op": slots.any(1), "slot": slots}
        rest = self._sizes[2:]
        return np.broadcast_to(slots.reshape(*slots.shape, *(1 for _ in rest)), (*slots.shape, *rest)).reshape(-1)

    def _draw(self) -> None:
        """The next order: one that can be carried out."""
        possible = [WAIT, *([PLANT] if not self._planted.all() else []), *([PRUNE] if self._planted.any() else [])]
        order = (self.np_random.random(len(self._sizes)) * self._sizes).astype(np.int64)
        order[0] = operation = possible[self.np_random.integers(len(possible))]
        if operation != WAIT:
            order[1] = self.np_random.choice(np.flatnonzero(self._planted == (operation == PRUNE)))
        self._order = np.where(self._matters[operation], order, 0)

    def _observe(self) -> Array:
        observation = np.zeros(self.observation_space.shape or (), np.float32)
        observation[(self._first + self._order)[self._matters[self._order[0]]]] = 1.0
        observation[-self._n_slots :] = self._planted
        return observation

    def _random_return(self) -> float:
        """Under uniform choices of every head, from the number m of planted slots, by their chain over the steps."""
        n = self._n_slots
        m = np.arange(n + 1)
        others = (1.0 / self._sizes) * self._matters  # chance that a head is right, where it matters
        others[:, :2] = 0.0
        share = others.sum(1)
        heads = self._matters.sum(1)
        free = {PLANT: (n - m) / n, PRUNE: m / n}
        paid = [np.ones(n + 1)]  # by operation, if it was ordered and chosen
        paid += [(free[op] * (1.0 + share[op]) + 1.0 / n) / heads[op] for op in (PLANT, PRUNE)]
        possible = np.stack([np.ones(n + 1), m < n, m > 0])
        reward = (possible * np.stack(paid)).sum(0) / possible.sum(0) / len(OPERATIONS)
        moves = np.diag(free[PLANT][:-1], 1) + np.diag(free[PRUNE][1:], -1)
        chain = moves / len(OPERATIONS)
        chain += np.diag(1.0 - chain.sum(1))
        chances = np.zeros(n + 1)
        chances[0] = 1.0
        total = 0.0
        for _ in range(self._episode_length):
            total += float(chances @ reward)
            chances = chances @ chain
        return total
