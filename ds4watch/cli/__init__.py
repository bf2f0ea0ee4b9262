"""The command line. Each command is a module with a Typer `app`, imported when it is asked for.

So `ds4watch --help` and `ds4watch sim` start without the web framework and the database.
"""

from __future__ import annotations

import difflib
import sys
from typing import NamedTuple

from ds4watch import __version__
from ds4watch.cli.loading import loaded
from ds4watch.cli.plain_text import write_what_the_terminal_can
from ds4watch.model.errors import ConfigError, Ds4watchError


class Command(NamedTuple):
    """Where a command lives, and what it does in one line; no help: not listed."""

    module: str
    help: str = ""


COMMANDS: dict[str, Command] = {
    "up": Command("ds4watch.cli.up", "Start daemon, gateway and workers; Ctrl-C stops them."),
    "down": Command("ds4watch.cli.down", "Stop all of them: finish open requests, then end."),
    "status": Command("ds4watch.cli.status", "Show workers, alerts, service level, signals, cost."),
    "top": Command("ds4watch.cli.top", "Watch the fleet live in the terminal."),
    "signals": Command("ds4watch.cli.signals", "Show what is measured now, of all or a worker."),
    "workers": Command(
        "ds4watch.cli.workers", "List, drain, stop, start the workers; show their logs."
    ),
    "fleet": Command(
        "ds4watch.cli.fleet", "Change the fleet to what the files say, step by step; pause, abort."
    ),
    "keys": Command("ds4watch.cli.keys", "Add, list, rotate, revoke the gateway's API keys."),
    "requests": Command(
        "ds4watch.cli.requests", "Add up requests, tokens, time and cost by key, model, …"
    ),
    "history": Command("ds4watch.cli.history", "Show, export, check and prune stored samples."),
    "audit": Command("ds4watch.cli.audit", "Tell what happened, when, and why."),
    "cost": Command("ds4watch.cli.cost", "Tell what was spent, on what, for whom, and why."),
    "notify": Command("ds4watch.cli.notify", "Try the channels; show and send reports."),
    "quality": Command(
        "ds4watch.cli.quality", "Ask golden questions; compare profiles; advise the cheapest."
    ),
    "hold": Command("ds4watch.cli.hold", "Forbid automatic actions for a while."),
    "alerts": Command("ds4watch.cli.alerts", "Show alerts, and which of them are silenced."),
    "silence": Command("ds4watch.cli.silence", "Tell nobody of some alerts for a while."),
    "unsilence": Command("ds4watch.cli.unsilence", "End a silence before its time."),
    "silences": Command("ds4watch.cli.silences", "List the silences in force and to come."),
    "actions": Command("ds4watch.cli.actions", "List what was done, or would have been, and why."),
    "tokens": Command("ds4watch.cli.tokens", "List, create, rotate, revoke tokens of the API."),
    "resume": Command("ds4watch.cli.resume", "Lift a hold: actions are taken again."),
    "act": Command("ds4watch.cli.act", "Do something by hand, through the policy's guards."),
    "approve": Command("ds4watch.cli.approve", "Say yes to an action that waits for it."),
    "refuse": Command("ds4watch.cli.refuse", "Say no to an action that waits for approval."),
    "undo": Command("ds4watch.cli.undo", "Take back an action on a worker."),
    "policy": Command("ds4watch.cli.policy", "Check the policy; tell what an alert leads to."),
    "check": Command("ds4watch.cli.check", "Check settings, profiles, rules and policy."),
    "rules": Command("ds4watch.cli.rules", "Check, test, explain, replay alert rules."),
    "doctor": Command("ds4watch.cli.doctor", "Look for what is broken, and say how to mend it."),
    "sim": Command("ds4watch.cli.sim", "Run simulated vLLM workers by themselves."),
    "load": Command("ds4watch.cli.load", "Send a bounded test load to the gateway."),
    "gateway": Command("ds4watch.cli.gateway", "Run one gateway process (for a systemd unit)."),
    "install": Command("ds4watch.cli.install", "Install ds4watch as a systemd service."),
    "completion": Command("ds4watch.cli.completion", "Print completion for bash, zsh, fish."),
    "config": Command("ds4watch.cli.config"),
    "version": Command("ds4watch.cli.version", "Print the version."),
}

EXIT_CONFIG = 2


def main(argv: list[str] | None = None) -> None:
    """Run one command and exit: 0 done, 1 failed, 2 bad input, 130 interrupted."""
    arguments = sys.argv[1:] if argv is None else argv
    write_what_the_terminal_can(sys.stdout, sys.stderr)
    try:
        code = _dispatch(arguments)
    except ConfigError as error:
        for finding in error.findings:
            sys.stderr.write(f"ds4watch: {finding}\n")
        code = EXIT_CONFIG
    except Ds4watchError as error:
        sys.stderr.write(f"ds4watch: {error}\n")
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        # The reader (head, less) left; keep the interpreter from saying so at its end.
        sys.stderr.close()
        code = 1
    sys.exit(code)


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else "--help"
    if name in ("--help", "-h", "help"):
        sys.stdout.write(overview())
        return 0
    if name in ("--version", "-V"):
        sys.stdout.write(f"ds4watch {__version__}\n")
        return 0
    if name not in COMMANDS:
        sys.stderr.write(f"ds4watch: there is no command {name!r}{_did_you_mean(name)}\n")
        return EXIT_CONFIG
    module = loaded(COMMANDS[name].module)
    usage = loaded("ds4watch.cli.usage")
    try:
        ended = module.app(
            args=arguments[1:],
            prog_name=f"ds4watch {name}",
            standalone_mode=False,
        )
    except usage.CannotUnderstand as error:
        sys.stderr.write(usage.one_line(error, f"ds4watch {name}") + "\n")
        return EXIT_CONFIG
    except usage.Abort:  # a question that was not answered
        sys.stderr.write("ds4watch: nothing was done\n")
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return ended if isinstance(ended, int) else 0


def overview() -> str:
    """Return the help of the whole."""
    listed = {name: command.help for name, command in COMMANDS.items() if command.help}
    lines = [f"  {name:<12}{text}" for name, text in listed.items()]
    return (
        "ds4watch: the cost and health autopilot of vLLM fleets\n\n"
        "Usage: ds4watch COMMAND [OPTIONS]\n\n"
        "Commands:\n" + "\n".join(lines) + "\n\n"
        "Each command has --help with an example, and --json where a program may ask.\n"
        "Exit codes: 0 done, 1 failed or found faults, 2 bad input or settings, 130 Ctrl-C.\n\n"
        "To see it work without vLLM: `ds4watch up --sim`; then, in a second terminal,\n"
        "`ds4watch load --concurrency 96` and `ds4watch status --watch`.\n"
    )


def _did_you_mean(name: str) -> str:
    close = difflib.get_close_matches(name, [*COMMANDS], n=1)
    return f" (did you mean {close[0]!r}?)" if close else " (see ds4watch --help)"
