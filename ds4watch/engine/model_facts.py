"""What can be known of a profile's model without loading it: its folder, or the hub's cache."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ds4watch.config.files import read_text
from ds4watch.config.lints.geometry import ModelFacts, Shape, quantized_of, shape_of
from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.command import model_path
from ds4watch.model.errors import ConfigError

_OTHER_COPIES = ("consolidated",)
"""Weights in the maker's own layout, beside those that are loaded."""


def look_at(profile: Profile, state_dir: Path, environ: Mapping[str, str]) -> ModelFacts:
    """Return what the model's folder says. Raises nothing: what cannot be read is not known."""
    if profile.engine is not Engine.VLLM:
        return ModelFacts()
    model = model_path(profile, state_dir)
    is_folder = profile.prepare is not None or Path(model).is_absolute()
    folder = Path(model) if is_folder else _cached(model, environ)
    if folder is None:
        return ModelFacts(why_not="it is not on this machine")
    if not (folder / "config.json").is_file():
        return ModelFacts(why_not=f"there is no {folder / 'config.json'}")
    try:
        config = json.loads(read_text(folder / "config.json"))
    except (ConfigError, ValueError) as error:
        return ModelFacts(why_not=f"{folder / 'config.json'} cannot be read: {error}")
    return _facts(config, folder)


def _facts(config: Any, folder: Path) -> ModelFacts:
    if not isinstance(config, dict):
        return ModelFacts(why_not=f"{folder / 'config.json'} is no JSON object")
    shape, weights = shape_of(config), _weights_bytes(folder)
    why_not = shape if isinstance(shape, str) else ""
    if not why_not and weights is None:
        why_not = f"there are no weight files in {folder}"
    return ModelFacts(
        shape if isinstance(shape, Shape) else None, weights, quantized_of(config), why_not
    )


def _weights_bytes(folder: Path) -> int | None:
    """Return the size of the weight files that vLLM would load; None without any."""
    for pattern in ("*.safetensors", "*.bin"):
        files = [it for it in folder.glob(pattern) if not it.name.startswith(_OTHER_COPIES)]
        try:
            total = sum(it.stat().st_size for it in files)
        except OSError:
            return None  # a link of the hub's cache without its file: not loaded yet
        if total:
            return total
    return None


def _cached(model: str, environ: Mapping[str, str]) -> Path | None:
    """Return the folder of a hub's model that was loaded here before."""
    home = environ.get("HF_HOME") or str(Path(environ.get("HOME", "/")) / ".cache" / "huggingface")
    cache = Path(environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    folder = cache / f"models--{model.replace('/', '--')}"
    try:
        revision = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    snapshot = folder / "snapshots" / revision
    return snapshot if revision and snapshot.is_dir() else None
