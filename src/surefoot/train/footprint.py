"""Memory that settings ask for, before it is asked of the machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from surefoot.config import Config
from surefoot.errors import ConfigError
from surefoot.spaces import Layout

PARAMETER_BYTES = 16
"""A float32 with its gradient and the two moments of Adam."""
ROW_BYTES = 32
"""Of one env step in a rollout: rewards, flags, log-probabilities; observations come on top."""
ENV_BYTES = 2_000
"""A small env of Gymnasium."""
MEMINFO = Path("/proc/meminfo")


def require_memory(config: Config, layout: Layout | None = None) -> None:
    """Raise if a setting alone needs more memory than there is. Only what is surely needed is counted, observations
    once their layout is known."""
    free = available_bytes()
    setting, need = max(needs(config, layout).items(), key=lambda item: item[1])
    if free is not None and need > free:
        raise ConfigError(
            f"{setting} would take at least {_in_words(need)} of memory, and {_in_words(free)} are free: lower it"
        )


@contextmanager
def explaining_memory(config: Config) -> Iterator[None]:
    """An allocation that fails within the block becomes an error that names the setting that needs most."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "alloc" not in str(error):
            raise
        setting, need = max(needs(config).items(), key=lambda item: item[1])
        raise ConfigError(
            f"the memory does not suffice; most is taken by {setting}, at least {_in_words(need)}: lower it"
        ) from error


def needs(config: Config, layout: Layout | None = None) -> dict[str, int]:
    """Bytes by the setting that decides them."""
    policy, memory, critic = config.policy, config.memory, config.critic
    last = policy.hidden_sizes[-1] if policy.hidden_sizes else 1
    hidden = [1, *policy.hidden_sizes]
    gates = {"lstm": 4, "gru": 3}.get(memory.kind, 0)  # what is unknown of parts of a caller's own counts as nothing
    after = [memory.hidden_size, *memory.output_sizes]
    outputs = "n_atoms" if critic.kind == "categorical" else "n_quantiles"
    n_outputs = getattr(critic, outputs) if critic.kind in ("quantile", "categorical") else 1
    seen = 0 if layout is None else sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in layout.leaves)
    parameters = {
        f"policy.hidden_sizes = {_list(policy.hidden_sizes)}": sum(m * n for m, n in pairwise(hidden)),
        f"memory.hidden_size = {memory.hidden_size}": gates * memory.layers * memory.hidden_size**2,
        f"memory.output_sizes = {_list(memory.output_sizes)}": sum(m * n for m, n in pairwise(after)) if gates else 0,
        f"critic.{outputs} = {n_outputs}": n_outputs * (after[-1] if gates else last),
    }
    return {name: PARAMETER_BYTES * count for name, count in parameters.items()} | {
        f"n_envs = {config.n_envs}": ENV_BYTES * config.n_envs,
        f"a rollout of ppo.n_steps = {config.ppo.n_steps} by n_envs = {config.n_envs}": (ROW_BYTES + seen)
        * config.rollout_rows,
    }


def available_bytes() -> int | None:
    """Memory that can be had without swapping; None where the system does not say."""
    try:
        lines = MEMINFO.read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _list(sizes: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _in_words(n_bytes: int) -> str:
    return f"{n_bytes:,} bytes ({n_bytes / 2**30:,.1f} GiB)" if n_bytes < 2**60 else f"{float(n_bytes):.1e} bytes"
