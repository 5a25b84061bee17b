from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file

from faults.samples import VERSIONS, same, sample, workspace, write_sample
from surefoot.errors import CheckpointError
from surefoot.store import Snapshot, read_checkpoint, write_checkpoint
from surefoot.store.jsontext import MAX_DEPTH, MAX_INT_BITS

DTYPES: list[Any] = [np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8, np.uint32, np.uint16]
DTYPES += [np.uint8, np.bool_]
names = st.lists(
    st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\"), min_size=1, max_size=12)
    | st.sampled_from(["$", "$$", "$float", "0"]),
    min_size=1,
    max_size=3,
).map("/".join)
tensor_names = names.filter(lambda name: not {".", ".."} & set(name.split("/")) and name.isprintable())
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.text(max_size=8)
)
keys = st.text(max_size=6) | st.sampled_from(["$float", "$", "$$float", "a"])
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=12
)


def round_trip(snapshot: Snapshot) -> Snapshot:
    with workspace() as place:
        path = write_checkpoint(place / "c", snapshot, exact=True, config_hash="h", versions=VERSIONS)
        return read_checkpoint(path)[0]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(tensor_names, arrays, max_size=5), st.dictionaries(keys, json_values, max_size=4))
def test_what_is_written_comes_back_bit_for_bit(tensors: dict[str, npt.NDArray[Any]], values: dict[str, Any]) -> None:
    snapshot = Snapshot(tensors, values)
    assert same(round_trip(snapshot), snapshot)


def test_generator_state_comes_back_and_goes_on() -> None:
    rng = np.random.default_rng(7)
    rng.random(3)
    back = round_trip(Snapshot({}, {"rng": rng.bit_generator.state}))
    twin = np.random.default_rng()
    twin.bit_generator.state = back.values["rng"]
    assert rng.random(5).tolist() == twin.random(5).tolist()


def test_names_may_look_like_the_markers_of_values() -> None:
    snapshot = Snapshot({"$float": np.zeros(1), "$$a": np.ones(2), "$a": np.ones(3)}, {"$float": 1.0, "a$": 2})
    assert same(round_trip(snapshot), snapshot)


def test_nan_payloads_and_signed_zeros_of_arrays_survive() -> None:
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000], dtype=np.uint64)
    array = bits.view(np.float64)
    assert round_trip(Snapshot({"x": array}, {})).tensors["x"].view(np.uint64).tolist() == bits.tolist()


def test_views_and_transposed_arrays_are_saved_by_their_values() -> None:
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    back = round_trip(Snapshot({"t": base.T, "s": base[::2, 1::3], "r": base[::-1]}, {})).tensors
    np.testing.assert_array_equal(back["t"], base.T)
    np.testing.assert_array_equal(back["s"], base[::2, 1::3])
    np.testing.assert_array_equal(back["r"], base[::-1])


def test_arrays_read_are_writable_and_independent(tmp_path: Path) -> None:
    write_sample(tmp_path / "c", 1)
    first, _ = read_checkpoint(tmp_path / "c")
    first.tensors["policy/actor.0.weight"][:] = 0.0
    assert same(read_checkpoint(tmp_path / "c")[0], sample(1))


def test_numpy_scalars_come_back_as_python_numbers_of_the_same_value() -> None:
    values = {"a": np.float64(0.1), "b": np.float32(0.1), "c": np.int64(7), "d": np.bool_(True)}
    back = round_trip(Snapshot({}, values)).values
    assert back == {"a": 0.1, "b": float(np.float32(0.1)), "c": 7, "d": True}
    assert [type(value) for value in back.values()] == [float, float, int, bool]


def test_state_is_strict_json_that_any_reader_understands(tmp_path: Path) -> None:
    values = {"loss": math.nan, "high": math.inf, "low": -math.inf, "$key": 1}
    write_checkpoint(tmp_path / "c", Snapshot({}, values), exact=False, config_hash="h", versions={})

    def refuse(word: str) -> None:
        raise AssertionError(word)

    text = json.loads((tmp_path / "c" / "state.json").read_text("ascii"), parse_constant=refuse)
    assert text == {"loss": {"$float": "nan"}, "high": {"$float": "inf"}, "low": {"$float": "-inf"}, "$$key": 1}


def test_other_safetensors_readers_read_the_tensors(tmp_path: Path) -> None:
    write_sample(tmp_path / "c", 3)
    assert same(Snapshot(load_file(tmp_path / "c" / "tensors.safetensors"), sample(3).values), sample(3))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"a": (1, 2)}, r"values\.a is a tuple"),
        ({"a": {"b": [1, {2}]}}, r"values\.a\.b\[1\] is a set"),
        ({"a": {1: 2}}, r"values\.a has the key 1"),
        ({"a": b"x"}, r"values\.a is a bytes"),
        ({"a": np.zeros(2)}, r"values\.a is a ndarray"),
        ({"a": 1 << MAX_INT_BITS}, r"values\.a is an integer of 8193 bits"),
        ({"a": nested(MAX_DEPTH)}, "nested deeper than 64"),
        ({"a": "x" * (5 << 20)}, "bytes of JSON"),
        ({"a": [0] * 300_000}, "more than 200000 values"),
    ],
)
def test_values_that_would_not_come_back_are_refused_by_name(tmp_path: Path, values: Any, reason: str) -> None:
    with pytest.raises(CheckpointError, match=reason):
        write_checkpoint(tmp_path / "c", Snapshot({}, values), exact=True, config_hash="h", versions={})
    assert list(tmp_path.iterdir()) == []


def test_the_deepest_nesting_and_the_largest_integer_that_are_allowed_come_back() -> None:
    values = {"a": nested(MAX_DEPTH - 1), "b": (1 << MAX_INT_BITS) - 1, "c": 1 - (1 << MAX_INT_BITS)}
    assert round_trip(Snapshot({}, values)).values == values


@pytest.mark.parametrize(
    "array", [np.zeros(2, complex), np.array(["a"]), np.array([{}]), np.zeros(2, ">f4"), np.zeros(2, np.uint64), [1.0]]
)
def test_arrays_of_other_kinds_are_refused_by_name(tmp_path: Path, array: Any) -> None:
    with pytest.raises(CheckpointError, match="tensor 'w' is "):
        write_checkpoint(tmp_path / "c", Snapshot({"w": array}, {}), exact=True, config_hash="h", versions={})


@pytest.mark.parametrize(
    "name", ["", "/w", "w/", "a//b", "..", "a/../b", "./a", "a\\b", "a\nb", "a\0b", "__metadata__", "w" * 513, "\ud800"]
)
def test_names_that_could_mislead_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(CheckpointError, match="tensor name"):
        write_checkpoint(tmp_path / "c", Snapshot({name: np.zeros(1)}, {}), exact=True, config_hash="h", versions={})
