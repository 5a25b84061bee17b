"""Environments of which only the spaces are known: what an agent needs to act, and nothing to train in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from gymnasium import spaces

from surefoot.actions.heads import HeadSpec
from surefoot.errors import EnvError
from surefoot.spaces import Array, Layout
from surefoot.vector.interface import Envs, Step


class DescribedEnvs(Envs):
    """Stands in for the envs of a loaded agent until it is trained."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        action_heads: Sequence[HeadSpec] | None,
        n_envs: int,
    ) -> None:
        self.observation_space, self.action_space = observation_space, action_space
        self.action_heads = None if action_heads is None else tuple(action_heads)
        self.layout = Layout.of(observation_space)
        self.n_envs = n_envs

    def reset(self, seed: int) -> Mapping[str, Array]:
        self._refuse()

    def step(self, actions: Any) -> Step:
        self._refuse()

    def state_dict(self) -> list[Any] | None:
        return None

    def load_state_dict(self, state: list[Any]) -> None:
        self._refuse()

    def close(self) -> None:
        pass

    def _refuse(self) -> NoReturn:
        raise EnvError("this agent was loaded without envs and has made none yet")
