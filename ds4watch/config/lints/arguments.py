"""vLLM's arguments as a profile gives them, and those that are misspelt, doubled or not its own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ds4watch.config.document import Path
from ds4watch.config.lints.findings import Advice, warn
from ds4watch.config.lints.vllm_arguments import ARGUMENTS, VERSION
from ds4watch.config.profile import Profile

_NUMBER: Final = re.compile(r"-\d+(\.\d+)?")
_OPTIMIZATION: Final = re.compile(r"-O=?\d?")
_FIELDS: Final = MappingProxyType(
    {
        "--max-model-len": "max_model_len",
        "--max-num-seqs": "max_num_seqs",
        "--served-model-name": "served_names",
        "--model": "model",
    }
)
_NOT_OURS: Final = MappingProxyType(
    {
        "--host": "workers listen on 127.0.0.1, where ds4watch looks for them",
        "--port": "ds4watch gives each worker a free port",
        "--uds": "ds4watch reaches workers by TCP",
        "--api-key": "anybody on this host can read it, and ds4watch does not: give api_key_file",
        "--ssl-certfile": "ds4watch asks workers on loopback without TLS",
        "--ssl-keyfile": "ds4watch asks workers on loopback without TLS",
        "--root-path": "ds4watch asks for /v1 and /metrics at the root",
        "--disable-log-stats": "the worker's metrics would be empty",
    }
)
_REPEATABLE: Final = ("--middleware",)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as written. `name` is its own name, `keys` what is dotted after it."""

    name: str
    written: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    path: Path
    is_known: bool = True

    @property
    def value(self) -> str:
        """Its first value; empty for a switch."""
        return self.values[0] if self.values else ""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a worker on a GPU gets, in order; of two with one name the later one holds."""

    given: tuple[Argument, ...]

    def find(self, name: str) -> Argument | None:
        """Return the argument of that own name that holds."""
        return next((it for it in reversed(self.given) if it.name == name), None)

    def value(self, name: str) -> str:
        """Return the value of an argument; empty if it is not given."""
        found = self.find(name)
        return found.value if found else ""

    def count(self, name: str) -> int:
        """Return a whole number such as a parallel size; 1 if it is not given or no number."""
        text = self.value(name)
        return max(1, int(text)) if text.isdecimal() else 1

    def switch(self, name: str) -> Argument | None:
        """Return the argument of a switch that is on."""
        found = self.find(name)
        return found if found and not found.written.startswith("--no-") else None


def arguments_of(profile: Profile) -> Arguments:
    """Return the arguments that hold on a GPU."""
    return Arguments(tuple(read_arguments(("engine_args",), profile.engine_args)))


def gpus_of(profile: Profile) -> int:
    """Return how many GPUs one worker takes: as the profile says, else as its arguments do."""
    return profile.gpus or _parallel(arguments_of(profile))


def read_arguments(base: Path, tokens: tuple[str, ...]) -> Iterator[Argument]:
    """Yield each argument with its values; what stands before the first name belongs to none."""
    starts = [at for at, token in enumerate(tokens) if _is_name(token)]
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=False):
        written, has_value, value = tokens[start].partition("=")
        values = ((value,) if has_value else ()) + tokens[start + 1 : end]
        yield _argument(written, values, (*base, start))


def _argument(written: str, values: tuple[str, ...], path: Path) -> Argument:
    if _OPTIMIZATION.fullmatch(written):
        return Argument("--optimization-level", written, (), values, path)
    head, *keys = written.split(".")
    spelling = head.replace("_", "-") if head.startswith("--") else head
    name = ARGUMENTS.get(spelling)
    known = name is not None
    return Argument(name or spelling, head, tuple(keys), values, path, is_known=known)


def _is_name(token: str) -> bool:
    return token.startswith("-") and not _NUMBER.fullmatch(token)


def lint_arguments(profile: Profile) -> Iterator[Advice]:
    """Yield what is wrong with the names of the arguments, on a GPU or without one."""
    for section in ("engine_args", "cpu_args"):
        tokens: tuple[str, ...] = getattr(profile, section)
        given = tuple(read_arguments((section,), tokens))
        if tokens and not _is_name(tokens[0]):
            message = f"{tokens[0]} is no argument, and belongs to none"
            yield Advice((section, 0), message, "begin with an argument's name, such as --dtype")
        for argument in given:
            yield from _name_faults(argument, profile)
        yield from _doubled(given)
    yield from _parallel_faults(profile)


def _name_faults(argument: Argument, profile: Profile) -> Iterator[Advice]:
    if not argument.is_known:
        yield _unknown(argument)
    elif argument.name in _FIELDS:
        field = _FIELDS[argument.name]
        is_set = getattr(profile, field) is not None
        message = f"{argument.written} is what the key {field} is for"
        doubled = f"{argument.written} is given by the key {field} too"
        yield Advice(argument.path, doubled if is_set else message, f"leave only {field}")
    elif argument.name in _NOT_OURS:
        message = f"{argument.written}: {_NOT_OURS[argument.name]}"
        yield Advice(argument.path, message, "take it out")
    elif argument.name == "--config":
        message = "--config: arguments in a file of their own are not checked here"
        yield warn(argument.path, message, "write them into engine_args")


def _unknown(argument: Argument) -> Advice:
    longer = {own for known, own in ARGUMENTS.items() if known.startswith(argument.name)}
    if len(longer) == 1 and argument.name.startswith("--"):
        message = f"{argument.written} is an abbreviation, which a newer vLLM may read otherwise"
        return warn(argument.path, message, f"write {longer.pop()}")
    close = difflib.get_close_matches(argument.name, ARGUMENTS, n=1)
    message = f"vLLM {VERSION} knows no argument {argument.written}, and does not start"
    mend = f"did you mean {close[0]}?" if close else "see `vllm serve --help=all`"
    return Advice(argument.path, message, mend)


def _doubled(given: tuple[Argument, ...]) -> Iterator[Advice]:
    seen: dict[str, Argument] = {}
    for argument in given:
        if argument.keys or argument.name in _REPEATABLE:
            continue
        first = seen.setdefault(argument.name, argument)
        if first is not argument:
            message = f"{argument.written} is given twice; vLLM takes the last"
            yield Advice(argument.path, message, "take one of them out")


def _parallel(arguments: Arguments) -> int:
    sizes = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
    first, second, third = (arguments.count(name) for name in sizes)
    return first * second * third


def _parallel_faults(profile: Profile) -> Iterator[Advice]:
    wanted = _parallel(arguments_of(profile))
    if profile.gpus is not None and profile.gpus != wanted:
        message = f"is {profile.gpus}, but tensor x pipeline x data parallel size is {wanted}"
        mend = f"set gpus to {wanted}, or --tensor-parallel-size to {profile.gpus}"
        yield Advice(("gpus",), message, mend)
