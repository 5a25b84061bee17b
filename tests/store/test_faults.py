"""Short versions of the fault suites; the long ones are run by `make faults`."""

from __future__ import annotations

import errno
import pickle
from pathlib import Path

import pytest

from faults.malice import Payload
from faults.operations import Call, FailAt, InterceptedOperations, Log
from faults.power import states_after_power_cut
from faults.samples import write_sample
from faults.scenarios import SCENARIOS, Bench, right_states
from faults.store_corruption import corrupt_newest
from faults.store_crashes import crash_at_every_operation, kill_while_saving, power_cut_at_every_operation
from faults.store_disk import SIZE_LIMITS, fail_at_every_operation, limit_file_size
from faults.store_malice import fuzz_sealed, read_malicious


@pytest.mark.timeout(60)
def test_a_crash_at_any_operation_leaves_the_old_or_the_new() -> None:
    figures = crash_at_every_operation()
    assert figures["failures"] == []
    assert figures["survived"] == figures["points"] > 150


@pytest.mark.timeout(60)
def test_a_power_cut_at_any_operation_leaves_the_old_or_the_new() -> None:
    figures = power_cut_at_every_operation()
    assert figures["failures"] == []
    assert figures["survived"] == figures["states"] > 100


@pytest.mark.parametrize("forgotten", ["tensors.safetensors", "manifest.json", "fresh directory"])
def test_the_power_cut_would_show_a_forgotten_sync(tmp_path: Path, forgotten: str) -> None:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == "next save")
    bench = Bench(scenario, tmp_path)
    log = bench.log().calls

    def is_forgotten(call: Call) -> bool:
        name = "fresh directory" if ".writing-" in call.path.name else call.path.name
        return call.name == "sync" and name == forgotten

    assert any(is_forgotten(call) for call in log)
    kept = [call for call in log if not is_forgotten(call)]
    assert any(
        not is_right(scenario.name, root) for _, root in states_after_power_cut(kept, bench.fresh(), tmp_path / "cut")
    )


def is_right(name: str, root: Path) -> bool:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    try:
        return scenario.state(root) in right_states(scenario)
    except Exception:
        return False


def test_a_replacement_syncs_before_each_rename_and_removes_last(tmp_path: Path) -> None:
    write_sample(tmp_path / "agent", 1)
    log = Log()
    write_sample(tmp_path / "agent", 2, operations=InterceptedOperations(log))
    fresh = log.calls[0].path

    def short(call: Call) -> str:
        known = {fresh: "fresh", tmp_path: "parent", tmp_path / "agent": "agent", tmp_path / ".agent.previous": "old"}
        label = known.get(call.path, f"{known.get(call.path.parent)}/{call.path.name}")
        return f"{call.name} {label}" + (f" -> {known[call.target]}" if call.target else "")

    steps = [short(call) for call in log.calls if call.name not in ("open_directory", "close")]
    files = ["tensors.safetensors", "state.json", "manifest.json"]
    assert steps == [
        "make_directory fresh",
        *(f"{operation} fresh/{name}" for name in files for operation in ("create_file", "write", "sync")),
        "sync fresh",
        "rename agent -> old",
        "sync parent",
        "rename fresh -> agent",
        "sync parent",
        *(f"remove_file old/{name}" for name in files),
        "remove_directory old",
    ]


def test_a_replacement_cut_before_its_last_sync_is_made_durable_before_the_old_one_goes(tmp_path: Path) -> None:
    write_sample(tmp_path / "agent", 1)
    (tmp_path / "agent").rename(tmp_path / ".agent.previous")
    write_sample(tmp_path / "new", 2).rename(tmp_path / "agent")
    log = Log()
    write_sample(tmp_path / "agent", 3, operations=InterceptedOperations(log))
    old = tmp_path / ".agent.previous"
    assert [(call.name, call.path) for call in log.calls[:4]] == [
        ("open_directory", tmp_path),
        ("sync", tmp_path),
        ("close", tmp_path),
        ("remove_file", old / "tensors.safetensors"),
    ]


@pytest.mark.timeout(120)
def test_a_killed_saver_loses_at_most_the_save_in_flight() -> None:
    """Ten kills at random moments; ten more, four times at most, while none has met a save."""
    mid_save = 0
    for _ in range(5):
        figures = kill_while_saving(10)
        assert (figures["unreadable"], figures["lost"], figures["leftovers"]) == (0, 0, 0)
        mid_save += figures["mid_save"]
        if mid_save:
            break
    assert mid_save > 0


@pytest.mark.timeout(120)
def test_a_disk_error_at_any_operation_is_named_and_damages_nothing() -> None:
    figures = fail_at_every_operation(faults_per_operation=2)
    assert figures["failures"] == []
    counted = [figures[key] for key in ("named_error", "old_intact", "no_temporary_left", "next_save_good")]
    assert counted == [figures["points"]] * 4


@pytest.mark.timeout(60)
def test_a_limit_on_file_sizes_is_named_and_damages_nothing() -> None:
    figures = limit_file_size()
    assert figures["failures"] == []
    counted = [figures[key] for key in ("named_error", "old_intact", "no_temporary_left")]
    assert counted == [len(SIZE_LIMITS)] * 3


@pytest.mark.timeout(60)
def test_any_damage_is_detected_and_the_previous_checkpoint_used() -> None:
    figures = corrupt_newest(150, seed=1)
    assert figures["failures"] == []
    assert figures["detected"] == 150


@pytest.mark.timeout(120)
def test_malicious_files_run_nothing_raise_only_our_errors_and_cost_little_memory() -> None:
    figures = read_malicious()
    assert figures["failures"] == []
    assert (figures["executions"], figures["foreign_errors"], figures["over_memory"]) == (0, 0, 0)
    assert figures["refused"] >= 150


@pytest.mark.timeout(60)
def test_random_changes_under_right_digests_raise_only_our_errors() -> None:
    figures = fuzz_sealed(500, seed=1)
    assert figures["failures"] == []
    assert figures["refused"] > 250


def test_the_malicious_pickle_would_run_if_it_were_loaded(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Payload(tmp_path / "canary")))
    assert (tmp_path / "canary").exists()


def test_directories_that_cannot_be_synced_on_some_file_systems_do_not_stop_a_save(tmp_path: Path) -> None:
    write_sample(tmp_path / "count", 1, operations=InterceptedOperations(log := Log()))
    last_sync = max(index for index, call in enumerate(log.calls) if call.name == "sync")
    fault = FailAt(last_sync, errno.EINVAL, stays=False)
    write_sample(tmp_path / "agent", 1, operations=InterceptedOperations(fault))
    assert fault.seen == len(log.calls)
