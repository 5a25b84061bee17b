"""Programs of kept runs, as processes: what is kept, what is run again, and what an exit code says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

PROGRAM = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from kept_runs import bring_up_to_date

HERE, SIZE, NAMES = Path(__file__).parent, int(sys.argv[1]), sys.argv[2:]

@dataclass(frozen=True)
class Errand:
    name: str

    def path(self):
        return HERE / "errands" / f"{self.name}.json"

    def run(self):
        if self.name == "fails":
            raise RuntimeError("on purpose")
        if self.name == "lasts":
            time.sleep(60)
        return {"settings": {"size": SIZE}, "mean": 1.0, "env_steps": 1, "wall_seconds": 0.0}

def write_report():
    (HERE / "page.md").write_text("all that is kept")
    return HERE / "page.md"

if __name__ == "__main__":
    errands = [Errand(name) for name in NAMES]
    raise SystemExit(bring_up_to_date(errands, 1, lambda record: {"size": SIZE}, write_report))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def start(program: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
    command = [sys.executable, str(program), *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def kept(program: Path) -> list[str]:
    return sorted(path.name for path in program.parent.glob("errands/*"))


def test_a_kept_run_is_not_made_again(program: Path) -> None:
    assert finish(start(program, "1", "first"))[0] == 0
    before = (program.parent / "errands" / "first.json").stat().st_mtime_ns
    code, out, _ = finish(start(program, "1", "first", "second"))
    assert code == 0
    assert "2 runs, 1 kept from before, 1 to do" in out
    assert kept(program) == ["first.json", "second.json"]
    assert (program.parent / "errands" / "first.json").stat().st_mtime_ns == before


def test_a_failed_run_is_named_and_the_others_are_kept_and_reported(program: Path) -> None:
    code, _, err = finish(start(program, "1", "fails", "works"))
    assert code == 1
    assert "FAILED Errand(name='fails') (exit code 1)" in err
    assert kept(program) == ["works.json"]
    assert (program.parent / "page.md").exists()


def test_a_run_with_other_settings_is_neither_replaced_nor_reported(program: Path) -> None:
    finish(start(program, "1", "first"))
    (program.parent / "page.md").unlink()
    code, _, err = finish(start(program, "2", "first"))
    assert code == 1
    assert "first.json was made with other settings (size); delete it to run again" in err
    assert not (program.parent / "page.md").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stopped_program_keeps_what_is_finished_and_nothing_else(program: Path, number: int) -> None:
    process = start(program, "1", "first", "lasts")
    assert process.stdout is not None
    while "start Errand(name='lasts')" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(number)
    code, _, err = finish(process)
    assert code == 130
    assert "stopped; finished runs are kept" in err
    assert kept(program) == ["first.json"]
