"""Compiled code is built in and loaded from a directory that no one else can write (Y07)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surefoot import PPO
from surefoot.errors import CodeCacheError, SurefootWarning
from surefoot.fast import decision as compiling
from surefoot.fast.code_cache import OWN_VARIABLE, TORCH_VARIABLE, private_cache, use_private_cache
from surefoot.fast.kernel import load_kernel

SETTINGS: dict[str, Any] = {
    "n_envs": 2,
    "n_steps": 8,
    "batch_size": 16,
    "n_epochs": 2,
    "policy": {"hidden_sizes": (4,)},
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the cache will be; nothing is there yet."""
    monkeypatch.setenv(OWN_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(TORCH_VARIABLE, raising=False)
    monkeypatch.setattr(compiling, "has_compiler", lambda: True)
    return tmp_path / "cache"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def test_it_is_made_for_its_user_alone(place: Path) -> None:
    before = os.umask(0)
    try:
        directory = private_cache()
    finally:
        os.umask(before)
    assert directory == place / "compiled"
    assert mode(place) == mode(directory) == 0o700


def test_it_lies_below_the_caches_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWN_VARIABLE, raising=False)
    monkeypatch.delenv(TORCH_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert private_cache() == tmp_path / ".cache" / "surefoot" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/paths/are/ignored")
    assert private_cache() == tmp_path / ".cache" / "surefoot" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert private_cache() == tmp_path / "xdg" / "surefoot" / "compiled"


@pytest.mark.parametrize(("permissions", "used"), [(0o700, True), (0o755, False), (0o770, False), (0o777, False)])
def test_a_directory_chosen_for_torch_is_used_if_no_one_else_can_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, permissions: int, used: bool
) -> None:
    chosen = tmp_path / "torch"
    chosen.mkdir()
    chosen.chmod(permissions)
    monkeypatch.delenv(OWN_VARIABLE, raising=False)
    monkeypatch.setenv(TORCH_VARIABLE, str(chosen))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert private_cache() == (chosen if used else tmp_path / "xdg" / "surefoot" / "compiled")


def writable_by_all(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir()
    place.chmod(0o777)


def writable_by_the_group(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir()
    place.chmod(0o775)


def writable_by_all_within(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "compiled").mkdir(parents=True)
    (place / "compiled").chmod(0o777)


def of_someone_else(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir()
    if os.geteuid() == 0:
        os.chown(place, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: place.lstat().st_uid + 1)


def of_someone_else_within(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir()
    of_someone_else(place / "compiled", monkeypatch)


def link(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.with_name("elsewhere").mkdir(mode=0o700)
    place.symlink_to(place.with_name("elsewhere"))


def file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.touch(mode=0o600)


def below_a_shared_one(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.parent.chmod(0o777)


SHARED: dict[Callable[[Path, pytest.MonkeyPatch], None], str] = {
    writable_by_all: "permissions 777",
    writable_by_the_group: "permissions 775",
    writable_by_all_within: "permissions 777",
    of_someone_else: "belongs to user|cannot make",
    of_someone_else_within: "belongs to user|cannot make",
    link: "symbolic link",
    file: "File exists|not a directory",
    below_a_shared_one: "anyone may replace it",
}
every_shared = pytest.mark.parametrize("share", SHARED, ids=lambda share: share.__name__)


@every_shared
def test_nothing_is_built_in_or_loaded_from_a_directory_of_others(
    place: Path, monkeypatch: pytest.MonkeyPatch, share: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    share(place, monkeypatch)
    loaded = spy_on_loading(monkeypatch)
    with pytest.raises(CodeCacheError, match=SHARED[share]):
        load_kernel.__wrapped__()
    with pytest.raises(CodeCacheError, match=rf"{place}.*({SHARED[share]})"):
        PPO("CartPole-v1", compile=True, **SETTINGS).learn(16)
    assert loaded == []


@every_shared
def test_training_goes_on_uncompiled_and_says_why(
    place: Path, monkeypatch: pytest.MonkeyPatch, share: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    share(place, monkeypatch)
    monkeypatch.setattr("surefoot.fast.acceleration.PAYING_STEPS", 1)
    agent = PPO("CartPole-v1", **SETTINGS)
    with pytest.warns(SurefootWarning, match=rf"training runs uncompiled: .*({SHARED[share]})"):
        agent.learn(16)
    assert agent.learner.compiled_parts == (False, False)


def test_a_compiled_agent_loads_where_nothing_can_be_compiled(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = PPO("CartPole-v1", **SETTINGS).learn(16).learner.state_dict()
    state.values["compiled"] = state.values["kernel"] = True
    writable_by_all(place, monkeypatch)
    agent = PPO("CartPole-v1", **SETTINGS)
    agent.learner.load_state_dict(state)
    with pytest.warns(SurefootWarning, match="training runs uncompiled"):
        agent.learn(16)


def test_where_there_is_no_home_nothing_is_compiled(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OWN_VARIABLE, "/proc/surefoot")
    with pytest.raises(CodeCacheError, match=r"cannot make .*/proc/surefoot"):
        private_cache()


def test_all_that_torch_loads_comes_from_the_private_directory(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also headers that it compiles in advance: what stands in them is compiled into every function."""
    from torch._inductor import codecache
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR"):
        monkeypatch.setattr(codecache, name, getattr(codecache, name))  # put back afterwards
    monkeypatch.setenv(TORCH_VARIABLE, "/nowhere")
    directory = use_private_cache()
    assert directory == place / "compiled"
    assert cache_dir() == str(directory)
    _, written = codecache.write("int x;", "cpp")
    for path in (written, codecache.get_lock_dir(), codecache._HEADER_DIR, codecache._HEADER_LOCK_DIR):
        assert Path(path).is_relative_to(directory)


def spy_on_loading(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What torch is asked to load; nothing is."""
    from torch._inductor.codecache import CppCodeCache

    asked: list[str] = []
    monkeypatch.setattr(CppCodeCache, "load", lambda source, **options: asked.append(source))
    return asked
