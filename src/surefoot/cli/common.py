"""What commands share: the agent of a run, and how things are shown."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Any

from surefoot.errors import RunError
from surefoot.output import say

if TYPE_CHECKING:
    from surefoot.store import Manifest, Snapshot
    from surefoot.train.ppo import PPO


def load_agent(arguments: argparse.Namespace) -> PPO:
    """The agent of a run or checkpoint, with its data where they are now."""
    from surefoot.store import read_checkpoint
    from surefoot.store.manifest import MANIFEST_FILE
    from surefoot.train.checkpoint import from_snapshot
    from surefoot.train.market import moved
    from surefoot.train.ppo import PPO
    from surefoot.train.run import BEST, latest_checkpoint

    def restored(snapshot: Snapshot, manifest: Manifest) -> PPO:
        saved = from_snapshot(snapshot, manifest)
        config = moved(saved.config, arguments.data)
        return PPO.restore(saved._replace(config=config), trusted=arguments.trust_module)

    path, best = arguments.run, arguments.best
    if best and not (path / BEST / MANIFEST_FILE).exists():
        raise RunError(f"{path} has no best agent: train it with --run.eval-every N")
    if best or os.path.exists(path / MANIFEST_FILE):  # which takes a name that is too long for one that is not there
        return restored(*read_checkpoint(path / BEST if best else path))
    found = latest_checkpoint(path)
    for skipped, reason in found.skipped:
        say(f"passed over {skipped}: {reason}")
    return restored(found.snapshot, found.manifest)


def table(title: str, rows: dict[str, Any]) -> None:
    """Print keys and values."""
    from rich.console import Console
    from rich.markup import escape  # names and paths of users are no markup
    from rich.table import Table

    shown_table = Table(title=escape(title), show_header=False)
    for key, value in rows.items():
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        shown_table.add_row(escape(key), escape(shown))
    Console().print(shown_table)
