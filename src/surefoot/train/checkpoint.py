"""Between a learner's state and the files of a checkpoint."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import gymnasium
import numpy as np
import torch

from surefoot.algo.learner import LearnerState
from surefoot.config import Config, from_dict
from surefoot.errors import CheckpointError
from surefoot.store import JSON, Manifest, Snapshot


def versions() -> dict[str, str]:
    """What a checkpoint was made with."""
    return {
        "surefoot": version("surefoot"),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "gymnasium": gymnasium.__version__,
        "python": platform.python_version(),
    }


def to_snapshot(state: LearnerState, config: Config, extra: Mapping[str, JSON] | None = None) -> Snapshot:
    """What is written: the learner's state, the configuration that rebuilds it, and what callbacks keep."""
    tensors = {name: tensor.numpy() for name, tensor in state.tensors.items()}
    values = {"learner": state.values, "config": config.model_dump(mode="json"), "extra": dict(extra or {})}
    return Snapshot(tensors, values)


def from_snapshot(snapshot: Snapshot, manifest: Manifest) -> tuple[LearnerState, Config, Mapping[str, Any]]:
    """What was written, as a learner takes it."""
    try:
        values: Any = snapshot.values
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in snapshot.tensors.items()}
        state = LearnerState(tensors, values["learner"], manifest.exact)
        return state, from_dict(values["config"]), values["extra"]
    except (KeyError, TypeError) as error:
        raise CheckpointError(
            f"the checkpoint is readable but not one of a training run: {error!r} is missing"
        ) from None
