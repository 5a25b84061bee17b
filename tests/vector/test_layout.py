"""Observations of every space as named leaves."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from surefoot.errors import UnsupportedSpaceError
from surefoot.spaces import Layout, mismatch

NESTED = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (8, 9, 3), np.uint8),
        "body": spaces.Dict({"joints": spaces.Box(-1, 1, (2, 3), np.float64), "mode": spaces.Discrete(3, start=1)}),
        "hands": spaces.Tuple((spaces.MultiBinary(4), spaces.MultiDiscrete([2, 5]))),
    }
)


def test_leaves_carry_their_path_shape_and_storage() -> None:
    leaves = {
        leaf.name: (leaf.shape, leaf.dtype.name, leaf.is_image, leaf.is_continuous) for leaf in Layout.of(NESTED).leaves
    }
    assert leaves == {
        "camera": ((8, 9, 3), "uint8", True, False),
        "body/joints": ((2, 3), "float32", False, True),
        "body/mode": ((), "int64", False, False),
        "hands/0": ((4,), "int8", False, False),
        "hands/1": ((2,), "int64", False, False),
    }


def test_a_plain_space_has_one_leaf() -> None:
    (leaf,) = Layout.of(spaces.Box(-1, 1, (3,), np.float64)).leaves
    assert (leaf.name, leaf.path, leaf.dtype.name) == ("obs", (), "float32")


@pytest.mark.parametrize(
    ("given", "raw"),
    [
        (np.float64, "float64"),
        (np.int64, "float64"),
        (np.uint32, "float64"),
        (np.float32, "float32"),
        (np.float16, "float32"),
        (np.int16, "float32"),
        (np.uint8, "float32"),
    ],
)
def test_numbers_that_float32_cannot_tell_apart_are_raw_in_float64(given: type[np.generic], raw: str) -> None:
    (leaf,) = Layout.of(spaces.Box(0, 9, (3,), given)).leaves
    assert (leaf.raw_dtype.name, leaf.dtype.name) == (raw, "float32")


@pytest.mark.parametrize("seed", range(3))
def test_an_observation_is_split_into_its_leaves(seed: int) -> None:
    NESTED.seed(seed)
    observation = NESTED.sample()
    parts = Layout.of(NESTED).split(observation)
    assert parts["body/joints"] == pytest.approx(observation["body"]["joints"])
    assert parts["body/mode"] == observation["body"]["mode"]
    assert np.array_equal(parts["hands/1"], observation["hands"][1])
    assert np.array_equal(parts["camera"], observation["camera"])


def test_storage_is_zero_and_has_the_leading_axes() -> None:
    storage = Layout.of(NESTED).empty(5, 2)
    assert storage["camera"].shape == (5, 2, 8, 9, 3)
    assert storage["body/mode"].shape == (5, 2)
    assert not any(array.any() for array in storage.values())


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(3),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Graph(spaces.Box(0, 1, (1,)), None),
        spaces.Dict({"a": spaces.Box(0, 1, (1,)), "b": spaces.Text(3)}),
    ],
    ids=["text", "sequence", "graph", "text inside a dict"],
)
def test_an_unsupported_space_is_named(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"(Text|Sequence|Graph).*supported"):
        Layout.of(space)


@pytest.mark.parametrize("space", [spaces.Dict({}), spaces.Tuple(()), spaces.Box(0.0, 1.0, (0,))])
def test_a_space_with_nothing_to_see_is_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpaceError):
        Layout.of(space)


def test_no_leaf_hides_another() -> None:
    """A key with a slash may spell the path of a nested one."""
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    clash = spaces.Dict({"a/b": box, "a": spaces.Dict({"b": box})})
    observation = {"a/b": np.array([0.25], np.float32), "a": {"b": np.array([0.5], np.float32)}}
    try:
        parts = Layout.of(clash).split(observation)
    except UnsupportedSpaceError:
        return  # refusing is as good as telling them apart
    assert sorted(float(x[0]) for x in parts.values()) == [0.25, 0.5]


@pytest.mark.parametrize(
    ("key", "name"),
    [("x/y", "x/y"), ("", "%"), ("..", "%2E%2E"), ("a//b", "a/%/b"), ("\\", "%5C"), ("50%", "50%25"), ("ö\n", "ö%0A")],
)
def test_a_key_that_no_tensor_may_bear_is_spelled_out(key: str, name: str) -> None:
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    assert [leaf.name for leaf in Layout.of(spaces.Dict({key: spaces.Tuple((box,))})).leaves] == [f"{name}/0"]


def test_a_name_that_no_tensor_may_bear_is_refused() -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"800 characters.*shorten"):
        Layout.of(spaces.Dict({"k" * 800: spaces.Discrete(2)}))


@pytest.mark.parametrize("seed", range(5))
def test_samples_of_a_space_belong_to_it(seed: int) -> None:
    NESTED.seed(seed)
    assert mismatch(NESTED, NESTED.sample()) is None


@pytest.mark.parametrize(
    ("space", "observation", "said"),
    [
        (spaces.Box(-1, 1, (2,)), np.zeros(3, np.float32), r"observation has shape \(3,\), its space says \(2,\)"),
        (spaces.Box(-1, 1, (2,)), np.array([0.0, 1.5], np.float32), r"observation\[1\] = 1.5 lies outside"),
        (spaces.Box(0, 255, (2,), np.uint8), np.zeros(2, np.float32), "dtype float32.*uint8"),
        (spaces.Box(-1, 1, (2,)), np.array(["a", "b"]), "dtype"),
        (spaces.Discrete(3), np.int64(3), "3.*not in its space"),
        (spaces.Discrete(3, start=1), np.int64(0), "0.*not in its space"),
        (spaces.MultiBinary(2), np.array([0, 2], np.int8), "not in its space"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 1}, r"keys \['a'\], got \['b'\]"),
        (spaces.Dict({"a": spaces.Discrete(2)}), np.zeros(1), r"keys \['a'\], got ndarray"),
        (spaces.Dict({"a": spaces.Box(-1, 1, (1,))}), {"a": np.zeros((2, 2))}, r"observation\['a'\] has shape"),
        (spaces.Tuple((spaces.Discrete(2),)), (np.int64(0), np.int64(0)), "tuple of 1 parts"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), (np.int64(0), np.int64(2)), r"observation\[1\] = "),
    ],
)
def test_what_does_not_belong_is_told(space: spaces.Space[Any], observation: Any, said: str) -> None:
    reason = mismatch(space, observation)
    assert reason is not None
    assert re.search(said, reason)
