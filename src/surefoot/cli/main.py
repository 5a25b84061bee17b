"""Entry point of ``surefoot``. Torch is imported only by the commands that need it."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

from surefoot.cli.market import add_market, market
from surefoot.cli.options import DEST, Parser, add_settings, normalize_argv, whole_number
from surefoot.errors import SurefootError
from surefoot.output import forgiving_output, occupy_standard, say

DESCRIPTION = "Surefoot: a PPO that keeps its footing."
EPILOG = """examples:
  surefoot train CartPole-v1 --run-dir runs/cartpole --total-timesteps 100000
  surefoot train Pendulum-v1 --preset --ppo.learning-rate "linear(1e-3, 0)"
  surefoot resume runs/cartpole
  surefoot eval runs/cartpole --episodes 100 --json
  surefoot record runs/cartpole --episodes 20 --out demos.npz
  surefoot train market --data sp500 --preset market-daily
"""
DATA = "prices to train on, short for --market.data: a file, the name of a data set, or generated:NAME(seed=0, …)"


def main(argv: Sequence[str] | None = None) -> None:
    """Run a command; errors raised on purpose become one message and exit code 2."""
    is_process = argv is None
    if is_process:
        occupy_standard()
    if is_process and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt_once)
    try:
        arguments = build_parser().parse_args(normalize_argv(sys.argv[1:] if argv is None else argv))
        _see_working_directory()
        _run(arguments)
    except SurefootError as error:
        say(f"surefoot: {error}")
        raise SystemExit(2) from None
    except MemoryError as error:
        say(f"surefoot: out of memory ({error}): lower n_envs, ppo.n_steps or policy.hidden_sizes")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        say("surefoot: interrupted")
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(141) from None
    finally:
        if is_process and signal.getsignal(signal.SIGINT) is _interrupt_once:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is left to do that would want to hear of it


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """Ctrl-C ends the command with a message, the next one ends the process, as an exception in the midst of ending
    would be a traceback."""
    del number, frame
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise KeyboardInterrupt


def build_parser() -> Parser:  # one statement for each option
    """All commands and their options."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = Parser(prog="surefoot", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    train = commands.add_parser("train", help="train an agent", description="Train an agent and write a run directory.")
    train.usage = (
        "surefoot train ENV|market [--data FILE] [--run-dir DIR] [--config FILE] [--preset [NAME]] [--SETTING VALUE …]"
    )
    train.add_argument(
        "env",
        nargs="?",
        metavar="ENV",
        help="Gymnasium id, or module:callable that makes an env; market is surefoot/Market-v0",
    )
    train.add_argument("--run-dir", type=Path, metavar="DIR", help="where the run is written (default: runs/ENV-N)")
    train.add_argument("--config", type=Path, metavar="FILE", help="settings from a TOML file; options win over it")
    train.add_argument(
        "--preset",
        nargs="?",
        const="",
        metavar="NAME",
        help="settings of ENV, or of a NAME that `surefoot presets` lists; options win over them",
    )
    train.add_argument("--quiet", action="store_true", help="no progress")
    train.add_argument("--data", dest=f"{DEST}market.data", default=argparse.SUPPRESS, metavar="FILE", help=DATA)
    add_settings(train)

    resume = commands.add_parser("resume", help="continue a run", description="Continue a run where it stopped.")
    resume.add_argument("run", type=Path, metavar="DIR")
    resume.add_argument(
        "--total-timesteps", type=whole_number, metavar="N", help="new goal, in env steps from the start"
    )
    resume.add_argument("--fresh", action="store_true", help="if no checkpoint can be read, start from the beginning")
    resume.add_argument("--quiet", action="store_true", help="no progress")

    evaluate = commands.add_parser("eval", help="evaluate a run", description="Play episodes with fixed seeds.")
    evaluate.add_argument("run", type=Path, metavar="DIR", help="run directory, checkpoint or saved agent")
    evaluate.add_argument(
        "--episodes", type=whole_number, metavar="N", help="how many (default: 20; on a market run.eval_episodes)"
    )
    evaluate.add_argument(
        "--seed",
        type=whole_number,
        default=0,
        help="episode i starts from seed + i; envs that step together start from this one (default: 0)",
    )
    evaluate.add_argument(
        "--env", metavar="ENV", help="play in this env (default: run.eval_env of the run, or the env of training)"
    )
    evaluate.add_argument("--env-kwargs", metavar="JSON", help="arguments of the env, over those of training")
    evaluate.add_argument("--stochastic", action="store_true", help="sample actions instead of taking the likeliest")
    evaluate.add_argument("--best", action="store_true", help="the best agent by evaluation instead of the last")
    evaluate.add_argument("--json", action="store_true", help="print JSON")
    _add_attacks(evaluate)

    record = commands.add_parser(
        "record", help="write demonstrations", description="Play episodes and write them as a demonstration set."
    )
    record.add_argument("run", type=Path, metavar="DIR", help="run directory, checkpoint or saved agent")
    record.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .npz to write; must not exist")
    record.add_argument("--episodes", type=whole_number, default=20, metavar="N", help="how many (default: 20)")
    record.add_argument("--seed", type=whole_number, default=0, help="episode i starts from seed + i (default: 0)")
    record.add_argument("--stochastic", action="store_true", help="sample actions instead of taking the likeliest")
    record.add_argument("--best", action="store_true", help="the best agent by evaluation instead of the last")
    record.add_argument("--json", action="store_true", help="print JSON")

    inspect = commands.add_parser("inspect", help="show what a run holds", description="Show what a run holds.")
    inspect.add_argument("run", type=Path, metavar="DIR")
    inspect.add_argument("--json", action="store_true", help="print JSON")

    add_market(commands)

    commands.add_parser("presets", help="list published settings", description="List published settings.")

    demo = commands.add_parser(
        "demo",
        help="train two agents to hedge an option",
        description="Train a risk-neutral and a CVaR agent to hedge an option, and show both beside classical rules.",
    )
    demo.add_argument("--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="where the picture goes")
    demo.add_argument("--seed", type=whole_number, default=0, help="of the training (default: 0)")

    _add_files([resume, evaluate, record], [train, resume, evaluate, record])
    resume.add_argument("--demonstrations", metavar="FILE", help="where the demonstrations are now, if they were moved")
    for name, command in commands.choices.items():
        if name != "market":  # its own commands do so themselves
            command.set_defaults(parser=command)
    return parser


def _add_attacks(evaluate: Parser) -> None:
    """Changed observations, for ``eval``."""
    evaluate.add_argument(
        "--attack",
        nargs="+",
        choices=["random", "fgsm", "pgd", "critic"],
        metavar="KIND",
        help="also play while observations are changed: random, fgsm, pgd, critic; needs --epsilon",
    )
    evaluate.add_argument(
        "--epsilon",
        type=float,
        metavar="E",
        help="largest change of a feature, in standard deviations if the run normalizes observations, else in units of "
        "the env",
    )
    evaluate.add_argument(
        "--fixed-features",
        nargs="*",
        metavar="F",
        help="what --attack leaves alone, as robust.fixed_features (default: those of the run)",
    )


def _add_files(of_runs: Sequence[Parser], of_envs: Sequence[Parser]) -> None:
    """What a file names: prices that may have been moved, and code that a person must name too."""
    for command in of_runs:
        command.add_argument("--data", metavar="FILE", help="where the prices of a market are now, if they were moved")
    for command in of_envs:
        command.add_argument(
            "--trust-module",
            action="append",
            default=[],
            metavar="NAME",
            help="a module that the env of a file may be imported from; may be given several times",
        )


def _see_working_directory() -> None:
    """Find module:callable beside the user, as `python -m` does; last, so that no file there hides a package."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.version:
        from surefoot import __version__

        print(f"surefoot {__version__}")
    elif arguments.command is None:
        build_parser().print_help()
    elif arguments.command == "market":
        market(arguments)
    else:
        from surefoot.cli import commands, playing

        command = {
            "train": commands.train,
            "resume": commands.resume,
            "eval": playing.evaluate,
            "record": playing.record,
            "inspect": commands.inspect,
            "presets": commands.presets,
            "demo": commands.demo,
        }[arguments.command]
        # What is trained is in files; whoever reads along may go.
        with forgiving_output() if arguments.command in ("train", "resume") else nullcontext():
            command(arguments)
