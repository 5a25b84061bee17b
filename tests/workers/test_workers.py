"""Worker processes equal a group in this process, and survive what would end it."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from faults.broken import Broken
from faults.worker_faults import env_raises, marked, parent_killed, segments, start_parent, worker_faults
from faults.worker_worlds import Closing, Do, Faltering, Obedient, Rich, Sized, Slow, Talkative
from surefoot.config import Config
from surefoot.errors import ConfigError, EnvError, EnvStateError
from surefoot.rollout.make import make_envs
from surefoot.spaces import Array
from surefoot.vector.group import EnvGroup
from surefoot.vector.interface import Step
from surefoot.workers.envs import WorkerEnvs

pytestmark = pytest.mark.timeout(60)
TIMEOUT = 1.0
TESTS = Path(__file__).parents[1]
LOSSES = {Do.EXIT: "died", Do.STOP: "hung", Do.HANG: "hung", Do.HANG_IN_C: "hung"}


@contextmanager
def workers_of(
    factory: Callable[[], Any], n_envs: int = 4, workers: int = 2, timeout: float = 30.0, **more: Any
) -> Iterator[WorkerEnvs]:
    envs = WorkerEnvs(factory, n_envs, workers, timeout, **more)
    try:
        yield envs
    finally:
        envs.close()


def told(*actions: Do) -> Array:
    return np.array(actions, np.int64)


def walk(n: int = 4) -> Array:
    return np.full(n, Do.WALK, np.int64)


def pid_of(envs: WorkerEnvs, worker: int) -> int:
    pid = envs.pids[worker]
    assert pid is not None
    return pid


def assert_same_array(a: Array, b: Array) -> None:
    assert a.dtype == b.dtype
    assert a.tobytes() == b.tobytes()


def assert_same_step(a: Step, b: Step) -> None:
    for field in ("reward", "terminated", "truncated", "valid", "active"):
        assert_same_array(getattr(a, field), getattr(b, field))
    assert (a.dropped == b.dropped).all()
    assert a.observation.keys() == b.observation.keys()
    assert a.final.keys() == b.final.keys()
    for name in a.observation:
        assert_same_array(a.observation[name], b.observation[name])
        for i in a.final:
            assert_same_array(a.final[i][name], b.final[i][name])
    for left, right in zip(a.infos, b.infos, strict=True):
        assert left.keys() == right.keys()
        for key, value in left.items():
            assert type(value) is type(right[key])
            np.testing.assert_array_equal(value, right[key])


def dropped(step: Step) -> list[int]:
    rows = [int(i) for i in np.flatnonzero(step.dropped)]
    assert not (step.valid & step.dropped).any()
    assert step.active.all()
    for i in rows:
        assert step.reward[i] == 0
        assert not step.terminated[i]
        assert not step.truncated[i]
        assert not step.infos[i]
        assert i not in step.final
    return rows


class TestParity:
    @pytest.mark.parametrize("workers", [2, 5])
    def test_steps_equal_those_of_a_group_in_every_bit(self, workers: int) -> None:
        group, rng = EnvGroup([Rich() for _ in range(5)]), np.random.default_rng(0)
        ends = 0
        with workers_of(Rich, 5, workers) as envs:
            expected, found = group.reset(7), envs.reset(7)
            for name, array in expected.items():
                assert_same_array(array, found[name])
            for _ in range(300):
                actions = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
                step = group.step(actions)
                assert_same_step(envs.step(actions), step)
                ends += len(step.final)
        assert ends > 50
        assert envs.n_restarts == 0

    def test_a_step_is_not_touched_by_later_ones(self) -> None:
        with workers_of(Rich) as envs:
            first = envs.reset(0)
            before = {name: array.copy() for name, array in first.items()}
            envs.step(np.zeros((4, 2), np.float32))
            for name, array in before.items():
                assert_same_array(array, first[name])

    def test_states_move_between_groups_and_any_number_of_workers(self) -> None:
        group, rng = EnvGroup([Rich() for _ in range(5)]), np.random.default_rng(1)
        with workers_of(Rich, 5, 2) as two, workers_of(Rich, 5, 3) as three:
            two.reset(3)
            for _ in range(30):
                two.step(rng.uniform(-1, 1, (5, 2)).astype(np.float32))
            state = two.state_dict()
            assert state is not None
            assert json.loads(json.dumps(state)) == state
            group.load_state_dict(state)
            assert group.state_dict() == [entry[:3] for entry in state]
            three.load_state_dict(state)
            assert three.state_dict() == state
            for _ in range(100):
                actions = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
                step = group.step(actions)
                assert_same_step(two.step(actions), step)
                assert_same_step(three.step(actions), step)

    def test_a_state_of_a_group_fits_workers(self) -> None:
        group, actions = EnvGroup([Rich() for _ in range(5)]), np.zeros((5, 2), np.float32)
        group.reset(3)
        state = group.state_dict()
        assert state is not None
        with workers_of(Rich, 5, 2) as envs:
            envs.load_state_dict(state)
            assert_same_step(envs.step(actions), group.step(actions))

    def test_envs_without_a_state_have_none(self) -> None:
        with workers_of(lambda: Slow(0.0)) as envs:
            envs.reset(0)
            assert envs.state_dict() is None

    @pytest.mark.parametrize(
        ("extra", "reason"),
        [
            (lambda: {1}, r"env 0 \(Faltering\): state_dict\(\)\['extra'\] is a set"),
            (lambda: 1 / 0, r"env 0 \(Faltering\): state_dict\(\) raised ZeroDivisionError"),
            (lambda: [0] * 40_000, "the states of all envs take .* values"),  # two of them would fit
        ],
    )
    def test_states_that_cannot_be_kept_are_told_and_harm_nothing(self, extra: Callable[[], Any], reason: str) -> None:
        with workers_of(lambda: Faltering(0.0, extra)) as envs:
            envs.reset(0)
            for _ in range(2):
                with pytest.raises(EnvStateError, match=reason):
                    envs.state_dict()
                assert envs.step(np.zeros(4, np.int64)).valid.all()
            assert envs.n_restarts == 0

    def test_envs_that_raise_go_on_from_a_state_as_if_never_interrupted(self) -> None:
        actions, steps, states = np.ones(4, np.int64), [], {}
        with workers_of(Faltering) as envs:
            envs.reset(5)
            for t in range(90):
                if t in (1, 17, 18, 40, 66):
                    states[t] = json.loads(json.dumps(envs.state_dict())), sum(map(Counter, envs.restarts), Counter())
                steps.append(envs.step(actions))
            expected = [dict(counter) for counter in envs.restarts]
        assert sum(bool(step.dropped.any()) for step in steps) > 5
        with workers_of(Faltering, workers=3) as envs:
            for t, (state, counted) in states.items():
                envs.load_state_dict(state)
                assert envs.n_restarts == counted.total()
                for step in steps[t:]:
                    assert_same_step(envs.step(actions), step)
                assert [dict(counter) for counter in envs.restarts] == expected

    def test_training_with_workers_ends_in_the_same_parameters(self) -> None:
        from surefoot import PPO

        flat = []
        for workers in (0, 2):
            agent = PPO("CartPole-v1", n_envs=4, workers=workers, n_steps=32, n_epochs=2, seed=5)
            agent.learn(512)
            flat.append(b"".join(p.detach().numpy().tobytes() for p in agent.learner.policy.parameters()))
            agent.close()
        assert flat[0] == flat[1]


class TestMaking:
    def test_a_lambda_with_a_closure_makes_envs(self) -> None:
        seconds = 0.0
        with workers_of(lambda: Slow(seconds)) as envs:
            assert envs.observation_space == Slow(0).observation_space
            assert envs.action_space == spaces.Discrete(2)

    def test_ids_of_the_training_process_are_known(self) -> None:
        gymnasium.register("OnlyHere-v0", entry_point=lambda: Slow(0.0))  # type: ignore[arg-type]  # one is enough
        try:
            envs = make_envs("OnlyHere-v0", 2, {}, workers=2)
            assert isinstance(envs, WorkerEnvs)
            envs.reset(0)
            envs.close()
        finally:
            del gymnasium.registry["OnlyHere-v0"]

    def test_workers_do_without_torch_and_each_has_its_process(self) -> None:
        import torch

        assert torch.__version__  # it is here, at least
        with workers_of(Obedient) as envs:
            envs.reset(0)
            infos = envs.step(walk()).infos
            assert [info["torch"] for info in infos] == [False] * 4
            assert [info["pid"] for info in infos] == [*[envs.pids[0]] * 2, *[envs.pids[1]] * 2]
            assert len({os.getpid(), *envs.pids}) == 3

    def test_starting_takes_little_time(self) -> None:
        began = time.monotonic()
        with workers_of(lambda: Slow(0.0)):
            assert time.monotonic() - began < 5  # 0.3 s on an idle machine

    def test_a_script_without_a_main_guard_works(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(
            "import gymnasium, numpy as np\n"
            "from surefoot.workers.envs import WorkerEnvs\n"
            "class Mine(gymnasium.Env):\n"
            "    observation_space = gymnasium.spaces.Discrete(3)\n"
            "    action_space = gymnasium.spaces.Discrete(2)\n"
            "    def reset(self, *, seed=None, options=None): return 1, {}\n"
            "    def step(self, action): return 2, 0.5, False, False, {}\n"
            "envs = WorkerEnvs(Mine, 2, 2)\n"
            "envs.reset(0)\n"
            "print(envs.step(np.zeros(2, np.int64)).reward.sum())\n",
            "utf-8",
        )
        done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=50, check=False)
        assert (done.stdout, done.stderr, done.returncode) == ("1.0\n", "", 0)

    def test_a_factory_that_raises_is_an_error_that_names_the_env(self) -> None:
        with pytest.raises(EnvError, match=r"env 0 could not be made: ValueError: fault='none'"):
            WorkerEnvs(lambda: Broken("none"), 2, 1)  # type: ignore[arg-type]  # on purpose

    def test_envs_that_differ_are_an_error(self) -> None:
        with pytest.raises(EnvError, match="env 1 has other spaces than env 0"):
            WorkerEnvs(lambda: Sized(os.getpid() % 1000 + 1), 2, 2)

    def test_what_cannot_be_sent_is_an_error_with_advice(self) -> None:
        lock = threading.Lock()
        with pytest.raises(ConfigError, match="set workers = 0"):
            WorkerEnvs(lambda: Slow(float(lock.locked())), 2, 2)

    def test_an_instance_cannot_be_moved_into_workers(self) -> None:
        with pytest.raises(ConfigError, match="give an id or a callable"):
            make_envs(Slow(0.0), 1, {}, workers=1)

    def test_a_timeout_without_workers_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="worker_timeout needs workers > 0"):
            Config(env="CartPole-v1", worker_timeout=5.0)


class TestEnvsThatRaise:
    def test_one_that_raises_is_made_anew_and_only_its_row_is_dropped(self) -> None:
        with workers_of(Obedient) as envs:
            first = envs.reset(0)["obs"]
            envs.step(walk())
            step = envs.step(told(Do.WALK, Do.RAISE, Do.WALK, Do.WALK))
            assert dropped(step) == [1]
            assert step.valid.tolist() == [True, False, True, True]
            assert step.reward.tolist() == [1, 0, 1, 1]
            assert step.observation["obs"][:, 0].tolist() == [2, 0, 2, 2]
            assert step.observation["obs"][1, 1] != first[1, 1]
            after = envs.step(walk())
            assert after.valid.all()
            assert dropped(after) == []
            assert after.observation["obs"][:, 0].tolist() == [3, 1, 3, 3]
            assert [dict(counter) for counter in envs.restarts] == [{}, {"raised": 1}, {}, {}]
            assert envs.faults[0].message == (
                "env 1 (Obedient) raised in step 1 (action np.int64(1)): RuntimeError: told to raise"
            )

    def test_the_new_episodes_are_decided_by_the_seed(self) -> None:
        starts = []
        for seed, workers in ((4, 1), (4, 2), (5, 2)):
            with workers_of(Obedient, workers=workers) as envs:
                envs.reset(seed)
                steps = [envs.step(told(Do.RAISE, Do.WALK, Do.WALK, Do.RAISE)) for _ in range(3)]
                starts.append(np.array([step.observation["obs"][[0, 3], 1] for step in steps]))
        assert len(np.unique(starts[0])) == 6
        np.testing.assert_array_equal(starts[0], starts[1])
        assert not (starts[1] == starts[2]).any()

    def test_one_that_raises_in_the_reset_after_its_episode_keeps_the_episode(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            step = envs.step(told(Do.FINISH_AND_RAISE_IN_RESET, Do.WALK, Do.WALK, Do.WALK))
            assert step.valid.all()
            assert dropped(step) == []
            assert step.terminated.tolist() == [True, False, False, False]
            assert step.final[0]["obs"][0] == 1
            assert step.observation["obs"][0, 0] == 0
            assert envs.restarts[0] == {"raised": 1}

    def test_one_that_never_makes_a_good_step_ends_the_run(self, tmp_path: Path) -> None:
        with workers_of(lambda: Obedient(str(tmp_path / "curse"))) as envs:
            envs.reset(0)
            envs.step(walk())
            envs.step(told(Do.RAISE_FROM_NOW_ON, Do.WALK, Do.WALK, Do.WALK))
            for _ in range(9):
                assert 0 in dropped(envs.step(walk()))
            hopeless = r"env 0 \(Obedient\) raised in step 1 .*: cursed first; made anew 10 times in a row.*: cursed$"
            with pytest.raises(EnvError, match=hopeless):
                envs.step(walk())
            assert envs.restarts[0]["raised"] == 10

    def test_there_is_a_limit_in_all(self) -> None:
        with workers_of(Obedient, max_restarts=3) as envs:
            envs.reset(0)
            for _ in range(3):
                envs.step(told(Do.RAISE, Do.WALK, Do.WALK, Do.WALK))
                envs.step(walk())
            with pytest.raises(EnvError, match=r"env 0 was made anew more than 3 times .*told to raise"):
                envs.step(told(Do.RAISE, Do.WALK, Do.WALK, Do.WALK))

    def test_a_broken_contract_is_not_mended_by_a_restart(self) -> None:
        with workers_of(lambda: Broken("shape", at_step=2)) as envs:
            envs.reset(0)
            envs.step(walk())
            with pytest.raises(EnvError, match=r"env 0 \(Broken\) in step 2: observation 'obs' has shape \(3,\)"):
                envs.step(walk())
            assert envs.n_restarts == 0

    def test_an_info_that_cannot_be_sent_is_an_error_with_advice(self) -> None:
        with workers_of(Talkative, 2) as envs:
            envs.reset(0)
            with pytest.raises(EnvError, match=r"envs 0 cannot be sent .* set workers = 0"):
                envs.step(np.zeros(2, np.int64))

    def test_restarts_are_counted_exactly(self) -> None:
        figures = env_raises(p=0.01, steps=4000, workers=2)
        assert figures["completed"]
        assert figures["raised"] == figures["counted"] > 10


class TestLostWorkers:
    @pytest.mark.parametrize("fault", LOSSES)
    def test_one_that_exits_stops_or_hangs_is_replaced_in_time(self, fault: Do) -> None:
        with workers_of(Obedient, timeout=TIMEOUT) as envs:
            envs.reset(0)
            envs.step(walk())
            began = time.monotonic()
            step = envs.step(told(Do.WALK, Do.WALK, Do.WALK, fault))
            assert time.monotonic() - began < TIMEOUT + 1
            assert dropped(step) == [2, 3]
            assert step.observation["obs"][:, 0].tolist() == [2, 2, 0, 0]
            after = envs.step(walk())
            assert after.valid.all()
            assert after.observation["obs"][:, 0].tolist() == [3, 3, 1, 1]
            assert [dict(counter) for counter in envs.restarts] == [{}, {}, *[{LOSSES[fault]: 1}] * 2]

    def test_kills_stops_and_hangs_at_random_moments_are_survived(self) -> None:
        figures = worker_faults(n=5, timeout=TIMEOUT)
        assert figures["replaced"] == 5
        assert figures["late"] == figures["clean_errors"] == 0

    def test_the_message_says_how_it_died(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            os.kill(pid_of(envs, 0), signal.SIGKILL)
            assert dropped(envs.step(walk())) == [0, 1]
            envs.step(told(Do.EXIT, Do.WALK, Do.WALK, Do.WALK))
            assert {fault.message for fault in envs.faults} == {
                "the worker of the envs 0 to 1 died by signal 9 (SIGKILL)",
                "the worker of the envs 0 to 1 died with exit code 3",
            }

    def test_one_that_fails_again_and_again_ends_the_run(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            for _ in range(3):
                envs.step(told(Do.EXIT, Do.WALK, Do.WALK, Do.WALK))
            with pytest.raises(EnvError, match=r"the envs 0 to 1 died .* replaced 3 times in a row"):
                envs.step(told(Do.EXIT, Do.WALK, Do.WALK, Do.WALK))

    def test_one_lost_between_steps_leaves_no_state_and_its_rows_are_dropped(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            envs.step(walk())
            os.kill(pid_of(envs, 1), signal.SIGKILL)
            assert envs.state_dict() is None
            step = envs.step(walk())
            assert dropped(step) == [2, 3]
            assert step.observation["obs"][:, 0].tolist() == [2, 2, 0, 0]
            assert envs.state_dict() is not None

    def test_one_lost_before_a_reset_or_a_load_makes_no_difference_to_it(self) -> None:
        with workers_of(Obedient) as envs:
            first = envs.reset(6)["obs"]
            envs.step(walk())
            state = envs.state_dict()
            assert state is not None
            os.kill(pid_of(envs, 1), signal.SIGKILL)
            assert_same_array(envs.reset(6)["obs"], first)
            os.kill(pid_of(envs, 0), signal.SIGKILL)
            envs.load_state_dict(state)
            step = envs.step(walk())
            assert step.valid.all()
            assert step.observation["obs"][:, 0].tolist() == [2, 2, 2, 2]

    def test_all_are_replaced_when_their_keeper_is_killed(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            fork_server = parent_of(pid_of(envs, 0))
            os.kill(fork_server, signal.SIGKILL)
            wait_until_gone(pid_of(envs, 0), pid_of(envs, 1))
            assert dropped(envs.step(walk())) == [0, 1, 2, 3]
            assert envs.step(walk()).valid.all()
            assert parent_of(pid_of(envs, 0)) != fork_server

    def test_an_interrupted_step_is_given_up(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with pytest.raises(KeyboardInterrupt):
                envs.step(told(Do.SLEEP_A_LITTLE, Do.WALK, Do.WALK, Do.WALK))
            timer.join()
            step = envs.step(walk())
            assert dropped(step) == [0, 1, 2, 3]
            assert envs.step(walk()).observation["obs"][:, 0].tolist() == [1, 1, 1, 1]
            assert envs.restarts[0] == {"interrupted": 1}

    def test_replacing_leaks_neither_files_nor_processes(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            counts = []
            for _ in range(6):
                os.kill(pid_of(envs, 0), signal.SIGKILL)
                envs.step(walk())
                envs.step(walk())
                fork_server = parent_of(pid_of(envs, 0))
                children = Path(f"/proc/{fork_server}/task/{fork_server}/children").read_text("utf-8").split()
                counts.append(
                    (len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{fork_server}/fd")), len(children))
                )
            assert len(set(counts)) == 1


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[1])


def gone(pid: int) -> bool:
    try:
        return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text("utf-8")
    except OSError:
        return True


def wait_until_gone(*pids: int, seconds: float = 2.0) -> None:
    deadline = time.monotonic() + seconds
    while not all(map(gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in pids if not gone(pid)] == []


class TestEnd:
    def test_closing_twice_is_safe_and_leaves_no_process(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            pids = [pid_of(envs, 0), pid_of(envs, 1), parent_of(pid_of(envs, 0))]
            envs.close()
            assert all(gone(pid) for pid in pids)
            envs.close()
            with pytest.raises(EnvError, match="closed"):
                envs.step(walk())

    def test_envs_are_closed_with_their_worker(self, tmp_path: Path) -> None:
        with workers_of(lambda: Closing(tmp_path), 3, 2) as envs:
            envs.reset(0)
        assert len(list(tmp_path.iterdir())) == 3

    def test_closing_does_not_wait_for_a_worker_that_hangs(self) -> None:
        with workers_of(Obedient) as envs:
            envs.reset(0)
            pids = [pid_of(envs, 0), pid_of(envs, 1)]
            os.kill(pids[1], signal.SIGSTOP)
            began = time.monotonic()
            envs.close()
            assert time.monotonic() - began < 5
            assert all(gone(pid) for pid in pids)

    def test_forgotten_envs_are_closed_with_their_last_reference(self) -> None:
        envs = WorkerEnvs(Obedient, 2, 2)
        pid = pid_of(envs, 0)
        del envs
        gc.collect()
        assert gone(pid)

    def test_ctrl_c_reaches_only_the_training_process(self) -> None:
        program = """
import signal
import numpy as np
from faults.worker_worlds import Obedient
from surefoot.workers.envs import WorkerEnvs
received = []
signal.signal(signal.SIGINT, lambda *_: received.append("int"))
envs = WorkerEnvs(Obedient, 4, 2)
envs.reset(0)
print(*envs.pids, flush=True)
steps = 0
while len(received) < 1 or steps < 200:
    envs.step(np.zeros(4, np.int64))
    steps = steps + 1 if received else 0
print(received, envs.n_restarts)
"""
        parent = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=TESTS,
            start_new_session=True,
        )
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        for pid in pids:  # a service manager signals everybody
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        os.killpg(parent.pid, signal.SIGINT)
        out, err = parent.communicate(timeout=50)
        assert (out, err) == ("['int'] 0\n", "")
        assert all(gone(pid) for pid in pids)


class TestParentKilled:
    @pytest.mark.parametrize(
        "code",
        [
            pytest.param("", id="plain"),
            pytest.param(
                "def make():\n"
                "    made = []\n"
                "    thread = threading.Thread(target=lambda: made.append(WorkerEnvs(Obedient, 4, 2)))\n"
                "    thread.start()\n"
                "    thread.join()\n"
                "    return made[0]",
                id="made in a thread that has ended",
            ),
            pytest.param(
                "import os, time\n"
                "def make():\n"
                "    global fork\n"
                "    envs = WorkerEnvs(Obedient, 4, 2)\n"
                "    fork = os.fork()\n"
                "    if fork == 0:\n"
                "        time.sleep(20)\n"
                "        os._exit(0)\n"
                "    return envs",
                id="its fork holds the sockets",
            ),
        ],
    )
    def test_no_process_and_no_memory_outlives_it(self, code: str) -> None:
        before, mark = segments(), uuid.uuid4().hex
        parent = start_parent(mark, code)
        assert parent.stdout is not None
        fork = int(parent.stdout.readline())
        processes = [pid for pid in marked(mark) if pid != fork]
        assert len(processes) >= 4
        parent.kill()
        parent.wait()
        parent.stdout.close()
        try:
            wait_until_gone(*processes)
        finally:
            if fork:
                os.kill(fork, signal.SIGKILL)
        assert segments() <= before

    def test_not_even_at_random_moments(self) -> None:
        figures = parent_killed(n=3)
        assert figures["orphans"] == 0
