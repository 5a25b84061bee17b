"""Infos of N envs as columns and as rows: the columns say what the rows say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given
from hypothesis import strategies as st

from surefoot.errors import EnvError, NonFiniteError
from surefoot.spaces import Array
from surefoot.vector.guard import UNTOLD, read_costs, read_successes
from surefoot.vector.gymnasium_vector import VectorEnvs
from surefoot.vector.infos import ColumnInfos, RowInfos, info_row
from vector.worlds import Clockwork

N = 4
flags = st.lists(st.booleans(), min_size=N, max_size=N).map(lambda x: np.array(x, np.bool_))
numbers = st.lists(st.floats(-1e6, 1e6), min_size=N, max_size=N).map(np.array)
values = st.one_of(
    numbers,
    flags,
    st.floats(-9, 9),
    st.sampled_from([np.arange(3), np.ones((N, 2)), "rain", {"deep": np.ones(N)}, np.array([None] * N, object)]),
)
infos = st.dictionaries(st.sampled_from(["cost", "_cost", "other"]), values, max_size=3)


@given(infos, infos, flags, flags)
def test_a_column_is_what_the_rows_say(info: dict[str, Any], last: dict[str, Any], valid: Array, ended: Array) -> None:
    for each in (info, last):
        if getattr(each.get("_cost"), "shape", ()) != (N,):  # it would tell nothing of who has a cost
            each.pop("_cost", None)
    found = ColumnInfos(info, valid, last, ended)
    rows = [info_row(last if ended[i] else info, i, N) if valid[i] else {} for i in range(N)]
    assert [set(row) for row in found] == [set(row) for row in rows]
    assert found.has("cost") or not any("cost" in row for row in rows)
    column = found.column("cost")
    if column is None:
        return
    assert column.given.tolist() == ["cost" in row for row in rows]
    assert [float(x) for x, told in zip(column.values, column.given, strict=True) if told] == [
        float(row["cost"]) for row in rows if "cost" in row
    ]


def test_usual_columns_are_read_as_columns() -> None:
    """Otherwise thousands of envs would be read one by one."""
    every = np.ones(N, np.bool_)
    some = np.array([True, False, True, False])
    last = {"cost": np.full(N, 7.0)}
    found = ColumnInfos({"cost": np.arange(N), "_cost": some}, every, last, ~some).column("cost")
    assert found is not None
    assert found.values.tolist() == [0, 7, 2, 7]
    assert found.given.tolist() == [True] * N
    plain = ColumnInfos({"cost": np.arange(N), "_cost": some}, every).column("cost")
    assert plain is not None
    assert plain.given.tolist() == some.tolist()


def test_rows_are_counted_like_a_list() -> None:
    for found in (RowInfos([{"a": 1}, {"a": 2}]), ColumnInfos({"a": np.array([1, 2])}, np.ones(2, np.bool_))):
        assert len(found) == 2
        assert found[-1] == {"a": 2}
        assert found[:1] == [{"a": 1}]
        with pytest.raises(IndexError, match="2 envs"):
            found[2]


def test_what_was_no_transition_has_no_info() -> None:
    found = ColumnInfos({"cost": np.ones(2)}, np.array([True, False]))
    assert list(found) == [{"cost": 1.0}, {}]
    costs = read_costs(found, "cost", 0, np.array([True, False]))
    assert costs is not None
    assert costs.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        (np.array([0.0, np.nan]), NonFiniteError, r"info\['cost'\] of env 1 at step 9 is nan"),
        (np.array([0.0, 1e60]), NonFiniteError, r"info\['cost'\] of env 1 at step 9 is 1e\+60, beyond float32"),
        (np.ones((2, 1)), EnvError, r"info\['cost'\] of env 0 at step 9 has shape \(1,\)"),
        (np.ones(3), EnvError, r"info\['cost'\] of env 0 at step 9 has shape \(3,\)"),
        (np.array([1, 1j]), EnvError, r"info\['cost'\] of env 0 at step 9 .*not a number"),
        ("much", EnvError, r"info\['cost'\] of env 0 at step 9 .*not a number"),
    ],
    ids=["nan", "large", "columns", "other length", "complex", "text"],
)
def test_a_bad_cost_in_a_column_is_named_with_its_env(column: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        read_costs(ColumnInfos({"cost": column}, np.ones(2, np.bool_)), "cost", 9)


def test_a_cost_missing_in_a_column_is_named_with_its_env() -> None:
    every = np.ones(2, np.bool_)
    found = ColumnInfos({"cost": np.ones(2), "_cost": np.array([True, False])}, every)
    costs = read_costs(found, "cost", 3)
    assert costs is not None
    assert costs.tolist() == [1.0, 0.0]
    with pytest.raises(EnvError, match=r"missing in env 1 at step 3"):
        read_costs(found, "cost", 3, every)
    assert read_costs(ColumnInfos({"cost": np.ones(2), "_cost": ~every}, every), "cost", 3) is None


def test_successes_of_some_envs_are_read_as_a_column() -> None:
    told = {"is_success": np.array([1, 0, 5, 1]), "_is_success": np.array([True, True, True, False])}
    found = ColumnInfos(told, np.ones(N, np.bool_))
    assert read_successes(found, np.array([0, 1, 3]), 2).tolist() == [1, 0, UNTOLD]
    with pytest.raises(EnvError, match=r"info\['is_success'\] of env 2 at step 2"):
        read_successes(found, np.array([0, 2]), 2)
    rows = RowInfos([{"is_success": True}, {}, {"is_success": np.array([0])}])
    assert read_successes(rows, np.arange(3), 0).tolist() == [1, UNTOLD, 0]


class Counted(np.ndarray[Any, Any]):
    """An array that counts who asks for one of its rows."""

    asked = 0

    def __getitem__(self, key: Any) -> Any:
        Counted.asked += isinstance(key, int | np.integer)
        return super().__getitem__(key)


class TellsAtReset(Clockwork):
    """Says its extra info after a reset too."""

    def reset(self, **settings: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**settings)[0], dict(self.extra)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_no_env_is_asked_for_its_row_in_a_step(mode: AutoresetMode) -> None:
    env = TellsAtReset(num_envs=50, length=2)
    env.metadata = {"autoreset_mode": mode}
    env.extra = {f"column {i}": np.ones(50).view(Counted) for i in range(10)}
    env.extra["action_mask"] = np.ones((50, 2), np.bool_).view(Counted)
    envs = VectorEnvs(env)
    envs.reset(0)
    Counted.asked = 0
    for _ in range(4):
        step = envs.step(np.zeros(50, np.int64))
        read_costs(step.infos, "cost", 0)
        read_successes(step.infos, step.final.envs, 0)
    assert Counted.asked == 0
    assert step.infos[3]["column 4"] == 1.0
    assert Counted.asked > 0


def test_masks_of_a_vector_env_are_saved_in_few_values_and_read_as_older_versions_wrote_them() -> None:
    env = TellsAtReset(num_envs=4)
    masks = np.array([[True, False], [False, True], [True, True], [True, False]])
    env.extra = {"action_mask": masks}
    envs = VectorEnvs(env)
    envs.reset(0)
    saved = envs._actions.saved()
    assert set(saved) == {"rows", "width"}
    for state in (saved, masks.astype(int).tolist()):
        other = VectorEnvs(TellsAtReset(num_envs=4))
        other._actions.load(state)
        found = other.action_masks()
        assert found is not None
        assert found.tolist() == masks.tolist()
    with pytest.raises(ValueError, match="other envs"):
        VectorEnvs(TellsAtReset(num_envs=3))._actions.load(saved)
