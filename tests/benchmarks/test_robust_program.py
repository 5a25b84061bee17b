"""The program of attacks: its runs say what each attack leaves, and its page what was asked for, met or missed."""

from __future__ import annotations

from typing import Any

import options
import pytest
from options_robust import hopper_table, pendulum_table

from surefoot.rollout.attack import ATTACKS

Record = dict[str, Any]


def record(clean: float, attacked: float) -> Record:
    """One agent that only pgd hurts."""
    returns = dict.fromkeys(("clean", "random", "fgsm", "critic"), clean) | {"pgd": attacked}
    settings = {"contender": {"attack_epsilon": 0.2}}
    return {"mean": attacked, "returns": returns, "untrained": -1200.0, "settings": settings}


@pytest.mark.parametrize("contender", ["plain", "sa_ppo"])
def test_a_run_keeps_the_return_under_every_attack_and_that_of_a_random_policy(contender: str) -> None:
    run = options.Run("robust", contender, 0, 4_096)
    found = run.run()
    assert set(found["returns"]) == {"clean", *ATTACKS}
    assert found["mean"] == min(found["returns"].values())
    assert len(set(found["returns"].values())) == 5
    assert -1600 < found["untrained"] < -900
    assert found["settings"] == options.wanted_settings(found)
    assert options.TABLES["robust"]({contender: [found, found]})[2].startswith(f"| {contender} |")


def test_the_page_says_what_is_met() -> None:
    page = pendulum_table({"plain": [record(-200, -600)] * 3, "sa_ppo": [record(-210, -300)] * 3})
    assert page[2].endswith("| −600 [−600, −600] |")
    assert page[4].startswith("| difference | −10 [−10, −10] |")
    assert page[4].endswith("| +300 [+300, +300] |")
    asked = [line for line in page if line.startswith("- ")]
    assert asked[0].endswith("40 %, met (of SA-PPO: 9 %).")
    assert asked[1].endswith("+300 [+300, +300], met.")
    assert asked[2].endswith("lower: −5.0 % (−1.0 % of what separates it from a random policy), met.")


def test_the_page_says_what_is_missed() -> None:
    plain = [record(-200, -300), record(-200, -500)]
    page = pendulum_table({"plain": plain, "sa_ppo": [record(-240, -310)] * 2})
    asked = [line for line in page if line.startswith("- ")]
    assert len(asked) == 3
    assert "20 %, **missed**" in asked[0]
    assert "+90 [−10, +190], **missed**" in asked[1]
    assert "−20.0 % (−4.0 % of what separates it from a random policy), **missed**" in asked[2]


def test_hopper_stands_beside_the_published_figures() -> None:
    page = hopper_table({"plain": [record(2000, 500)]})
    assert page[2].startswith("| plain | 2000 [2000, 2000] |")
    assert "733" in page[-3]
