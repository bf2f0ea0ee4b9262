"""Print vLLM's version and the names of its server's arguments, as JSON; run by vLLM's Python."""

from __future__ import annotations

import json
import sys

import vllm
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser


def main() -> None:
    """Print {version, entries}, each entry as `ds4watch.config.lints.vllm_arguments` has it."""
    parser = make_arg_parser(FlexibleArgumentParser())
    entries = (_entry(action.option_strings) for action in parser._actions)
    json.dump({"version": vllm.__version__, "entries": sorted(filter(None, entries))}, sys.stdout)


def _entry(options: list[str]) -> str:
    """Return `x`, `[no-]x` for a switch with an opposite, `x,-y` with other names."""
    known = set(options)
    opposites = {it for it in options if f"--{it.removeprefix('--no-')}" in known - {it}}
    plain = sorted(known - opposites, key=lambda it: (not it.startswith("--"), it))
    entry = ",".join(plain).removeprefix("--")
    return f"[no-]{entry}" if opposites else entry


if __name__ == "__main__":
    main()
