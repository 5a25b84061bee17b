"""Help explains every field, and costs no import of torch."""

from __future__ import annotations

import re
import sys

import pytest

from cli.commands import Surefoot, process
from surefoot.config.load import leaves


def plain(text: str) -> str:
    return " ".join(text.split())


def test_help_lists_the_commands(surefoot: Surefoot) -> None:
    ended = surefoot("--help")
    assert ended.code == 0
    for command in ("train", "resume", "eval", "inspect", "presets", "demo"):
        assert re.search(rf"^ +{command} +\w", ended.out, re.MULTILINE)


def test_no_command_shows_the_help(surefoot: Surefoot) -> None:
    assert surefoot() == surefoot("--help")


@pytest.mark.parametrize("width", ["80", "200"])
def test_help_of_train_explains_every_field(surefoot: Surefoot, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    monkeypatch.setenv("COLUMNS", width)
    ended = surefoot("train", "--help")
    assert ended.code == 0
    text = plain(ended.out)
    for name, field in leaves():
        if name != "env":
            assert f"--{name.replace('_', '-')} " in text
        assert plain(field.description or "?").rstrip(".") in text, name


def test_help_of_train_shows_defaults_and_choices(surefoot: Surefoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = plain(surefoot("train", "--help").out)
    for part in (
        "(default: 0.0003)",
        "(default: rollout)",
        "rollout|minibatch|env|none",
        "k1|k2|k3|exact",
        "(default: 64 64)",
        "(default: false)",
        "(default: none)",
        "(default: tensorboard)",
    ):
        assert part in text


@pytest.mark.parametrize("command", ["resume", "eval", "inspect", "presets"])
def test_every_command_has_help(surefoot: Surefoot, command: str) -> None:
    ended = surefoot(command, "--help")
    assert ended.code == 0
    assert f"usage: surefoot {command}" in ended.out


def test_the_version_is_shown(surefoot: Surefoot) -> None:
    from surefoot import __version__

    assert surefoot("--version").out == f"surefoot {__version__}\n"


CHECK = """
import sys
from surefoot.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert stop.code == int("--seed" in sys.argv) * 2, stop.code
heavy = {"torch", "gymnasium", "tensorboard", "rich"} & set(sys.modules)
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["presets"], ["--version"], ["train", "CartPole-v1", "--seed", "x"]]
)
def test_help_and_mistakes_do_not_wait_for_torch(words: list[str]) -> None:
    ended = process(*words, command=(sys.executable, "-c", CHECK))
    assert ended.code == 0, ended.err
