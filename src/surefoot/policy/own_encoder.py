"""Encoders that users bring: a class by name in the configuration, and the class itself from the caller alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from surefoot.errors import FOREIGN, ConfigError
from surefoot.spaces import Layout

EncoderClass = Callable[[Layout], nn.Module]
"""Takes the layout of the observation; the module has ``n_outputs`` and turns leaves [B, ...] by name into features
[B, n_outputs]."""


def name_of(given: Any) -> str:
    """How a configuration calls a class: ``module:Class``."""
    return f"{given.__module__}:{given.__qualname__}"


def import_encoder(name: str) -> EncoderClass:
    """The class that the caller names; never one that only a file names (Y03)."""
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except FOREIGN as error:
        raise ConfigError(
            f"cannot import policy.encoder = {name!r}, which is module:Class ({type(error).__name__}: {error})"
        ) from error
    if not callable(found):
        raise ConfigError(f"policy.encoder = {name!r} is not a class")
    encoder: EncoderClass = found
    return encoder


class OwnEncoder(nn.Module):
    """A user's module, with what the rest relies on checked."""

    def __init__(self, encoder: EncoderClass, layout: Layout) -> None:
        super().__init__()
        name = getattr(encoder, "__qualname__", repr(encoder))
        try:
            inner = encoder(layout)
        except FOREIGN as error:
            raise ConfigError(f"policy.encoder {name} raised {type(error).__name__}: {error}") from error
        n_outputs = getattr(inner, "n_outputs", None)
        if not isinstance(inner, nn.Module) or not isinstance(n_outputs, int) or n_outputs < 1:
            raise ConfigError(
                f"policy.encoder {name} must make a torch.nn.Module with n_outputs, the width of its features"
            )
        self.inner, self.n_outputs, self.name = inner, n_outputs, name

    def forward(self, observation: Mapping[str, Tensor]) -> Tensor:
        features: Tensor = self.inner(observation)
        return features

    def check(self, layout: Layout) -> None:
        """Raise unless features have the shape that is promised, on a batch of two zeros."""
        batch = {name: torch.from_numpy(x) for name, x in layout.empty(2).items()}
        try:
            with torch.no_grad():
                found = self(batch)
        except FOREIGN as error:
            raise ConfigError(
                f"policy.encoder {self.name} raised on a batch of two ({type(error).__name__}: {error}); it gets a "
                f"dict of tensors: {', '.join(f'{name} {tuple(x.shape)}' for name, x in batch.items())}"
            ) from error
        if not isinstance(found, Tensor) or found.shape != (2, self.n_outputs):
            said = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise ConfigError(f"policy.encoder {self.name} gives {said} for two rows, not (2, {self.n_outputs})")
