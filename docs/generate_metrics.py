"""Writes docs/metrics.md: every log key with its unit and meaning, group after group.

Run: python docs/generate_metrics.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surefoot.algo.metrics import OF_HEAD_RECORDS, OF_HEADS, OF_ROLLOUT, OF_ROWS, OF_TERMS, TABLE, Declared, Metric

PAGE = Path(__file__).with_name("metrics.md")

GROUPS = {
    "rollout/": "Episodes of the rollouts",
    "train/": "The update",
    "train/head/": "Each head of a factored action",
    "risk/": "Risk terms and the tails of distributional critics",
    "time/": "Time",
    "eval/": "Evaluation",
    "warn/": "Warnings, logged only where there is something to say",
    "error/": "Errors, logged only where there are any",
}

TEXT = """# Metrics

Made by `python docs/generate_metrics.py` from `surefoot.algo.metrics`; edit that, not this.

What a run logs in `metrics.jsonl`, to its sinks and in `agent.logger_values`. Keys of Stable-Baselines3 have its
meaning.

- *Of*: **rows** are the rows of all minibatches of an update whose gradient was finite, **rollout** the transitions
  that it learns from, **update** the update as a whole; else the module that makes the number.
- *Reduced*: how many values become one. `p90` and `median` are the smallest value that 90 % or half of them do not
  exceed, `slope` is the change from the first to the last row by a straight line, `value` is one number already.
- *Unit*: `return` is the unit of the critic, that of rewards after normalization; `reward` and `cost` are those of the
  env; `share` is between 0 and 1; `1` is a number without unit.
- NaN (`null` in `metrics.jsonl`) is "no data". With `diagnostics=False` metrics of rows are not logged.
- `<…>` stands for a name.

{groups}
"""


def page() -> str:
    """The whole document."""
    sections = []
    for prefix, title in GROUPS.items():
        entries = [entry for key, entry in TABLE.items() if group_of(key) == prefix]
        lines = [f"| `{e.key}` | {of_what(e)} | {e.reduce} | {e.unit} | {cell(e.meaning)} |" for e in entries]
        head = [f"## `{prefix}`: {title}", "", "| key | of | reduced | unit | meaning |", "|---|---|---|---|---|"]
        sections.append("\n".join([*head, *lines]))
    return TEXT.format(groups="\n\n".join(sections))


def group_of(key: str) -> str:
    """The longest prefix."""
    return max((prefix for prefix in GROUPS if key.startswith(prefix)), key=len)


def of_what(entry: Metric[Any, Any] | Declared) -> str:
    """From what it is computed."""
    if isinstance(entry, Declared):
        return f"`{entry.maker}`"
    if entry in (*OF_ROWS, *OF_TERMS, *OF_HEADS):
        return "rows"
    return "rollout" if entry in (*OF_ROLLOUT, OF_HEAD_RECORDS[0]) else "update"


def cell(text: str) -> str:
    """With bars that do not end a cell."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
