"""Between a learner's state and the files of a checkpoint.

The seal of a checkpoint says that its files belong together, not that they are good: what they hold is checked here,
before anything of its size is made.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated, Any, Literal, NamedTuple
from zlib import crc32

import gymnasium
import numpy as np
import torch
from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from surefoot.algo.build import action_family, observed_layout, policy_layout
from surefoot.algo.learner import Learner
from surefoot.algo.trainer_state import TrainerState
from surefoot.config import Config, from_dict
from surefoot.config.load import with_new_names
from surefoot.errors import CheckpointError, ConfigError, SurefootError
from surefoot.policy.own_encoder import EncoderClass
from surefoot.policy.policy import build_policy
from surefoot.risk.build import build_risk
from surefoot.store import JSON, Manifest, Snapshot
from surefoot.train.space_codec import SavedSpaces, decode_spaces, encode_spaces
from surefoot.vector.interface import Envs

SMALL_SPACE = 4096
"""Numbers of a space that are not worth a look at the weights."""

MANY_ENVS = 1 << 16
"""Envs that may be asked for though the state is of fewer."""


class Saved(NamedTuple):
    """An agent as it was saved."""

    state: TrainerState
    config: Config
    spaces: SavedSpaces | None
    """None if they were not saved, as in older formats."""
    extra: Mapping[str, Any]
    """What a run keeps beside the agent."""


def versions() -> dict[str, str]:
    """What a checkpoint was made with."""
    return {
        "surefoot": version("surefoot"),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "gymnasium": gymnasium.__version__,
        "python": platform.python_version(),
    }


def to_snapshot(state: TrainerState, config: Config, envs: Envs, extra: Mapping[str, JSON] | None = None) -> Snapshot:
    """What is written: the learner's state, the configuration and spaces that rebuild it, and what callbacks keep."""
    spaces, arrays = encode_spaces(envs)
    tensors = {name: tensor.numpy() for name, tensor in state.tensors.items()} | arrays
    values = {
        "learner": state.values,
        "config": config.model_dump(mode="json"),
        "spaces": spaces,
        "extra": dict(extra or {}),
    }
    return Snapshot(tensors, values)


def from_snapshot(snapshot: Snapshot, manifest: Manifest) -> Saved:
    """What was written, as a learner takes it."""
    with reading():
        values: Any = snapshot.values
        _Values.model_validate(values)
        _require_finite(snapshot)
        try:
            config = from_dict(with_new_names(values["config"]), acting=True)
        except ConfigError as error:
            raise CheckpointError(f"its configuration is not valid: {error}") from None
        _require_widths(config, snapshot)
        spaces = None
        if values["spaces"] is not None:
            most = SMALL_SPACE + max((array.size for array in snapshot.tensors.values()), default=0)
            spaces = decode_spaces(values["spaces"], snapshot.tensors, most)
        tensors = {
            name: torch.from_numpy(np.array(array))
            for name, array in snapshot.tensors.items()
            if not name.startswith("spaces/")
        }
        return Saved(TrainerState(tensors, values["learner"], manifest.exact), config, spaces, values["extra"])


@contextmanager
def reading() -> Iterator[None]:
    """Whatever contents that do not fit together lead to is one kind of error."""
    try:
        yield
    except SurefootError:
        raise
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CheckpointError(f"the checkpoint's contents are not those of an agent: {where}: {first['msg']}") from None
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, MemoryError) as error:
        raise CheckpointError(
            f"the checkpoint's contents do not fit together: {type(error).__name__}: {str(error)[:200]}"
        ) from None


def require_like(saved: Saved, config: Config, envs: Envs, encoder: EncoderClass | None = None) -> None:
    """Raise unless the weights are those of the configured policy for these spaces; nothing of their size is made."""
    family = action_family(envs.action_space, config, envs.action_heads)
    with torch.device("meta"):
        risk = build_risk(config.risk, envs.n_envs, config.ppo.gamma)
        layout = policy_layout(observed_layout(envs, config), config, risk)
        auxiliary = None if risk is None else risk.auxiliary
        policy = build_policy(layout, family, config, torch.Generator(), encoder, auxiliary)
    expected = {
        f"policy/{part}.{name}": tuple(parameter.shape)
        for part, module in policy.parts().items()
        for name, parameter in module.named_parameters()
    }
    found = {name: tuple(x.shape) for name, x in saved.state.tensors.items() if name.startswith("policy/")}
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            said = "is missing" if name not in found else f"has shape {found[name]}"
            wants = "knows none such" if name not in expected else f"wants {expected[name]}"
            raise CheckpointError(f"the saved {name} {said}; its configuration {wants}")


def on_this_device(state: TrainerState, learner: Learner) -> TrainerState:
    """A state of another kind of device. Each has a form of its own for random streams, so that those on the device
    begin anew, from seeds that their old states give."""
    own = learner.lasting_tensors()
    fresh = {
        name: torch.Generator(learner.device).manual_seed(crc32(x.numpy().tobytes())).get_state()
        for name, x in state.tensors.items()
        if "generator" in name and name in own and x.shape != own[name].shape
    }
    return replace(state, tensors={**state.tensors, **fresh})


def _require_finite(snapshot: Snapshot) -> None:
    for name, array in snapshot.tensors.items():
        if array.dtype.kind == "f" and not name.startswith("spaces/") and not np.isfinite(array).all():
            raise CheckpointError(f"the saved {name} holds {array[~np.isfinite(array)].flat[0]}")


def _require_widths(config: Config, snapshot: Snapshot) -> None:
    """No layer can be wider, and there cannot be more of them, than the saved weights show."""
    weights = [array for name, array in snapshot.tensors.items() if name.startswith("policy/")]
    widest = max((side for array in weights for side in array.shape), default=0)
    policy, memory, critic = config.policy, config.memory, config.critic
    sizes = {"memory.output_sizes": memory.output_sizes}
    if not policy.encoder:
        sizes |= {"policy.hidden_sizes": policy.hidden_sizes}
        sizes |= {"policy.critic_hidden_sizes": policy.critic_hidden_sizes or ()}
    if memory.kind in ("lstm", "gru"):
        sizes |= {"memory.hidden_size": (memory.hidden_size,)}
    if critic.kind == "quantile":
        sizes |= {"critic.n_quantiles": (critic.n_quantiles,)}
    if critic.kind == "categorical":
        sizes |= {"critic.n_atoms": (critic.n_atoms,)}
    for name, given in sizes.items():
        if max(given, default=0) > widest or len(given) > len(weights):
            raise CheckpointError(f"its configuration says {name} = {given}, its weights are no wider than {widest}")
    n_envs = len(snapshot.values["learner"]["collector"]["active"])
    if max(memory.layers, len(policy.cnn_channels)) > max(len(weights), 3) or config.n_envs > max(n_envs, MANY_ENVS):
        raise CheckpointError("its configuration says more layers or envs than its state has")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


_Count = Annotated[int, Ge(0), Le(10**18)]
_Number = Annotated[float, Ge(-1e300), Le(1e300)]


class _Episodes(_Part):
    total: list[_Number]
    length: list[_Count]
    cost: list[_Number]
    recent: list[Annotated[tuple[_Count, _Number, _Count, _Number, bool | None], Field(strict=False)]]
    finished: _Count
    has_costs: bool


class _Collector(_Part):
    active: list[bool]
    episode_start: list[bool]
    vector_steps: _Count
    episodes: _Episodes
    envs: Any
    kind: str | None
    started: bool
    context: dict[str, list[_Number]] | None


class _Schedules(_Part):
    timesteps: _Count | None
    first_update: _Count


class _Plan(_Part):
    entropy: dict[str, Any]
    adapted_rate: Annotated[float, Ge(0.0), Le(1e6)] | None


class _Learner(_Part):
    timesteps: _Count
    updates: _Count
    schedules: _Schedules
    plan: _Plan
    bad_streak: _Count
    compiled: bool
    kernel: bool
    collector: _Collector
    risk: dict[str, Any] | None
    calibration: dict[str, Any] | None
    action_units: Literal["box", "env"]


class _Values(_Part):
    """The form of a checkpoint's values; what stands in ``config`` and ``spaces`` is checked by those who read it."""

    learner: _Learner
    config: dict[str, Any]
    spaces: dict[str, Any] | None
    extra: dict[str, Any]
