"""``surefoot market``: problems as JSON and as a table, exit codes, the list of data sets."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from cli.commands import Surefoot, process
from surefoot.cli.market import in_options
from surefoot.market.rules import RULES

GOOD = "time,close\n2020-01-02,10\n2020-01-03,11\n2020-01-06,10.5\n"
BAD = "time,close\n2020-01-02,10\n2020-01-03,\n2020-01-03,-1\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prices.csv"


def test_a_sound_file_is_said_to_be_sound(surefoot: Surefoot, file: Path) -> None:
    file.write_text(GOOD)
    ended = surefoot("market", "check", file, "--json", "--calendar", "XNYS")
    found = json.loads(ended.out)
    assert (ended.code, found["problems"], found["bars"]) == (0, [], 3)
    assert (found["start"], found["end"]) == ("2020-01-02T21:00:00Z", "2020-01-06T21:00:00Z")
    assert len(found["fingerprint"]) == 64
    assert "no problem" in surefoot("market", "check", file).out


def test_problems_come_with_row_column_rule_and_text(surefoot: Surefoot, file: Path) -> None:
    file.write_text(BAD)
    ended = surefoot("market", "check", file, "--json")
    assert ended.code == 1
    found = json.loads(ended.out)
    assert [(p["row"], p["column"], p["rule"]) for p in found["problems"]] == [
        (3, "close", "missing"),
        (4, "close", "non-positive"),
        (4, "time", "duplicate-stamp"),
    ]
    assert {"row", "column", "rule", "text", "severity"} == set(found["problems"][0])
    assert found["bars"] == 3


def test_problems_are_shown_to_people(surefoot: Surefoot, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file.write_text(BAD.replace("close", "[red]close"))
    ended = surefoot("market", "check", file, "--column", "close=[red]close")
    assert ended.code == 1
    assert "non-positive" in ended.out
    assert "[red]close" in ended.out  # names of a file are text, not markup
    assert "3 error(s), 0 warning(s)" in ended.out


def test_warnings_alone_end_well(surefoot: Surefoot, file: Path) -> None:
    file.write_text(GOOD.replace("2020-01-06", "2020-01-07") + "2020-01-08,10.4\n")
    ended = surefoot("market", "check", file, "--calendar", "XNYS", "--json")
    assert (ended.code, [p["severity"] for p in json.loads(ended.out)["problems"]]) == (0, ["warning"])


def test_repairs_are_shown(surefoot: Surefoot, file: Path) -> None:
    file.write_text(BAD.replace("-1", "12") + "2020-01-06,11\n")
    ended = surefoot("market", "check", file, "--repair", "drop_missing")
    assert ended.code == 0
    assert "repaired: drop_missing: 1 rows left out" in ended.out


def test_one_instrument_and_its_stamp(surefoot: Surefoot, file: Path) -> None:
    rows = "".join(f"2020-01-02 1{h}:00,{name},1,2,1,1.5\n" for h in range(3) for name in ("A", "B"))
    file.write_text("time,symbol,open,high,low,close\n" + rows)
    assert surefoot("market", "check", file).code == 1
    ended = surefoot("market", "check", file, "--instrument", "B", "--stamp", "close", "--json")
    assert (ended.code, json.loads(ended.out)["bars"]) == (0, 3)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere.csv"], "no such file"),
        (["sp500", "--stamp", "middle"], "invalid choice"),
        (["sp500", "--repair", "magic"], "no repair is called 'magic'"),
        (["sp500", "--column", "close"], "is not ROLE=NAME"),
        (["sp500", "--calender", "XNYS"], "unknown argument --calender"),
        ([], "FILE"),
    ],
)
def test_mistakes_of_use_end_with_2(surefoot: Surefoot, words: list[str], told: str) -> None:
    ended = surefoot("market", "check", *words)
    assert ended.code == 2
    assert told in ended.err


def test_market_alone_tells_its_commands(surefoot: Surefoot) -> None:
    assert surefoot("market").code == 2
    assert "check" in surefoot("market", "--help").out


def test_data_sets_are_listed(surefoot: Surefoot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    rows = {row["name"]: row for row in json.loads(surefoot("market", "data", "--json").out)}
    assert {"sp500", "nasdaq", "wti", "eurusd-hourly", "ecb-eurusd"} <= set(rows)
    assert rows["sp500"]["bars"] == 5031
    assert all(row["licence"] and row["source"] for row in rows.values())
    shown = surefoot("market", "data").out
    assert "1999-01-04 to 2018-12-31" in shown
    assert "licence of the data" in shown


CHECK = """
import sys
from surefoot.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as stop:
    assert not stop.code, stop.code
heavy = {"torch", "gymnasium", "tensorboard"} & set(sys.modules)
assert not heavy, heavy
"""


def test_checking_does_not_wait_for_torch(file: Path) -> None:
    file.write_text(GOOD)
    ended = process("market", "check", file, command=(sys.executable, "-c", CHECK))
    assert ended.code == 0, ended.err


def test_ways_out_are_options_that_exist(surefoot: Surefoot, file: Path) -> None:
    file.write_text(BAD)
    missing, *_ = json.loads(surefoot("market", "check", file, "--json").out)["problems"]
    assert missing["text"].endswith("; --repair drop_missing or --repair forward_fill")
    options = surefoot("market", "check", "--help").out
    for rule in RULES.values():
        words = in_options(rule.way_out)
        assert not re.search(r'[a-z]=["({]|\b(timezone|calendar|now|columns)=', words), words
        for option in re.findall(r"--[a-z]+", words):
            assert option in options, words


def test_only_the_way_out_is_put_in_other_words(surefoot: Surefoot, file: Path) -> None:
    file.write_text(BAD.replace("-1", 'stamp="open"'))
    found = json.loads(surefoot("market", "check", file, "--json").out)["problems"]
    assert any('stamp="open"' in problem["text"] for problem in found)
