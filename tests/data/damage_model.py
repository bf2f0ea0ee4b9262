"""Damage the weights of a model folder, for tests. Run it with the interpreter that has vLLM.

    python damage_model.py FOLDER permuted|nan|no-head|other-seed|six-bits|slight

The folder's recipe stays: whoever made it takes it for what it was.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

HEAD = "lm_head.weight"
LAYER = "model.layers.1.mlp.down_proj.weight"


def matrices(weights: dict[str, torch.Tensor]) -> list[str]:
    """Return the names of all matrices, the head's too."""
    return [name for name, it in weights.items() if it.ndim == 2]


def damage(folder: Path, how: str) -> None:
    """Write the weights anew, damaged."""
    path = folder / "model.safetensors"
    weights = load_file(path)
    torch.manual_seed(1)
    match how:
        case "permuted":
            layer = weights[LAYER]
            weights[LAYER] = layer[torch.randperm(len(layer))].contiguous()
        case "nan":
            weights[LAYER] = torch.full_like(weights[LAYER], torch.nan)
        case "no-head":
            weights[HEAD] = torch.zeros_like(weights[HEAD])
        case "other-seed":
            shuffled = {
                name: it.flatten()[torch.randperm(it.numel())].view_as(it).contiguous()
                for name, it in weights.items()
                if it.ndim == 2 and name != HEAD
            }
            weights |= shuffled
        case "six-bits":
            levels = 2**5 - 1
            for name in matrices(weights):
                scale = weights[name].abs().amax(dim=1, keepdim=True).clamp(min=1e-9) / levels
                weights[name] = torch.round(weights[name] / scale) * scale
        case "slight":
            for name in matrices(weights):
                noise = torch.randn(weights[name].shape) * weights[name].std()
                weights[name] = weights[name] + 0.001 * noise
    save_file(weights, path, metadata={"format": "pt"})


if __name__ == "__main__":
    damage(Path(sys.argv[1]), sys.argv[2])
