"""What an agent earns when its observations are changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

from surefoot.algo.build import observed_layout
from surefoot.evaluate.episodes import Evaluation
from surefoot.rollout.attack import Attack, AttackedActor
from surefoot.rollout.features import attackable_features

if TYPE_CHECKING:
    from surefoot.rollout.make import EnvLike
    from surefoot.train.ppo import PPO


def evaluate_attacked(
    agent: PPO,
    attacks: Sequence[Attack],
    epsilon: float,
    n_episodes: int = 20,
    seed: int = 0,
    deterministic: bool = True,
    fixed_features: Sequence[str] | None = None,
    env: EnvLike | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> dict[str, Evaluation]:
    """The evaluation on the same seeds without an attack (``clean``), and under each of some; ``fixed_features`` are
    those of the agent's configuration unless others are given, ``env`` and ``env_kwargs`` those of `PPO.evaluate`."""
    fixed = agent.config.robust.fixed_features if fixed_features is None else fixed_features
    attackable = attackable_features(observed_layout(agent.envs, agent.config), fixed, _columns(agent, fixed))
    attackers = {attack: AttackedActor(agent.learner.actor, attack, epsilon, attackable, seed) for attack in attacks}
    found = {"clean": agent.evaluate(n_episodes, seed, deterministic, env, env_kwargs)}
    for attack, attacker in attackers.items():
        with _acting_by(agent, attacker):
            found[attack] = agent.evaluate(n_episodes, seed, deterministic, env, env_kwargs)
    return found


def _columns(agent: PPO, fixed: Sequence[str]) -> tuple[str, ...]:
    """Names that the env gives to features, if names are asked for; a loaded agent has no env yet."""
    if all(text.rpartition(":")[2].isdecimal() for text in fixed):
        return ()
    with closing(agent.evaluations.single(1)) as envs:
        return envs.observation_columns()


@contextmanager
def _acting_by(agent: PPO, actor: AttackedActor) -> Iterator[None]:
    """Let evaluations act by another actor; the collector keeps its own."""
    own = agent.learner.actor
    agent.learner.actor = cast(Any, actor)
    try:
        yield
    finally:
        agent.learner.actor = own
