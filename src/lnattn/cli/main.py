"""The command line: `lnattn COMMAND …`. Each command lives in its own module of `lnattn.cli`.

Exit codes: 0 done; 1 it could not be done, and one sentence on standard error says why; 2 the
command was not understood; 130 interrupted from the keyboard.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version

from lnattn.errors import LnattnError

#: Command -> (module with add_arguments and run, one line for the overview).
COMMANDS = {
    "models": ("lnattn.cli.models", "list the models that can be named"),
    "affinity": ("lnattn.cli.affinity", "which tokens each head pairs with a token"),
    "report": ("lnattn.cli.report", "one page about a model's first layer, with its numbers"),
    "count": ("lnattn.cli.count", "count a corpus: unigrams and bigrams, exact, on all cores"),
    "keys": ("lnattn.cli.keys", "which of your keys no query can select, with proofs"),
    "freeze": ("lnattn.cli.freeze", "compute every study of a model and write the results"),
    "verify": ("lnattn.cli.verify", "compute frozen results again and list what differs"),
}

_EXAMPLES = """examples:
  lnattn affinity minilm jackson
  lnattn count articles.jsonl --tokenizer book-gpt2 --out counts.npz
  lnattn COMMAND --help     what a command does, its options, and examples

exit codes: 0 done · 1 could not be done (one sentence says why) · 2 not understood
"""


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line; only `command` gets its own arguments filled in."""
    parser = argparse.ArgumentParser(
        prog="lnattn",
        description="LayerNorm and attention, read from the weights.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"lnattn {version('lnattn')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (module_name, summary) in COMMANDS.items():
        if name != command:
            commands.add_parser(name, help=summary)
            continue
        module = importlib.import_module(module_name)
        subparser = commands.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            epilog=module.EXAMPLES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. `argv` defaults to the process's arguments."""
    _never_fail_on_letters()
    arguments = sys.argv[1:] if argv is None else list(argv)
    command = next((word for word in arguments if not word.startswith("-")), None)
    args = build_parser(command).parse_args(arguments)
    try:
        return args.run(args) or 0
    except (LnattnError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # The reader of our output (head, less) has gone; there is nobody left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        print(f"lnattn {args.command}: {_sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"lnattn {args.command}: interrupted", file=sys.stderr)
        return 130


def _never_fail_on_letters() -> None:
    """Show a letter that a terminal in ASCII does not have as '?', rather than to fail on it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _sentence(error: LnattnError | OSError) -> str:
    """What went wrong, in one line; of the system's errors also what to do."""
    words = " ".join(str(error).split())
    if not isinstance(error, OSError):
        return words
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{words}: make room there and give the same command again."
    if error.filename is None:
        return words
    return f"{error.filename} cannot be read or written ({error.strerror}); name another."


def run(line: str) -> None:
    """Run a command as it is typed, for a page that shows what it prints, errors and exit code."""
    _, *arguments = shlex.split(line)
    code: str | int | None
    with contextlib.redirect_stderr(sys.stdout):
        try:
            code = main(arguments)
        except SystemExit as end:  # how argparse ends after --help, or what it did not understand
            code = end.code
    if code:
        print(f"exit code {code}")


if __name__ == "__main__":
    sys.exit(main())
