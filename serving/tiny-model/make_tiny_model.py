"""Make a tiny random language model that a real vLLM serves on any machine in seconds.

Run it with the interpreter that has vLLM (it needs torch, transformers and tokenizers):

    python make_tiny_model.py OUT_DIR [--bits 16|8|6|4] [--seed 0]

A 2-layer Qwen2 of 128 hidden units with a byte-level tokenizer: one token is one byte of text,
so prompt lengths are easy to reckon with. All bit widths are the same seeded model; below 16
every weight matrix is rounded symmetrically, row by row, to that many bits ("fake quantized":
the values are those of a quantized model, the storage is not), so the divergence between two
widths is the error of the rounding and of nothing else.

The folder appears whole or not at all, and two makers of the same folder do no harm.
"""

from __future__ import annotations

import argparse
import json
import os
import string
import tempfile
from contextlib import suppress
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from transformers.utils.logging import disable_progress_bar

FULL_BITS = 16
HIDDEN = 128
HEADS = 2
LAYERS = 2
MAX_POSITIONS = 8192
SPREAD = 0.12
"""Standard deviation of the weights: wide enough that the next token is no coin toss."""
END, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
RECIPE = "ds4watch_recipe.json"


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Return a BPE tokenizer over the 256 bytes, without merges, with a chat template."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=END,
        additional_special_tokens=[TURN_START, TURN_END],
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_POSITIONS,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def seeded_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """Return the random model of `seed`. Greedy answers are printable ASCII and never end early.

    The output rows of all tokens but printable ASCII are zero: their logits are 0, which the
    largest of 95 random ones practically always beats.
    """
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        intermediate_size=4 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=MAX_POSITIONS,
        initializer_range=SPREAD,
        tie_word_embeddings=False,
        use_cache=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config).float().eval()
    printable = string.ascii_letters + string.digits + string.punctuation + " "
    keep = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(printable))
    mask = torch.zeros(len(tokenizer), 1)
    mask[keep] = 1.0
    with torch.no_grad():
        model.lm_head.weight.mul_(mask)
    return model


def round_to_bits(matrix: torch.Tensor, bits: int) -> torch.Tensor:
    """Return `matrix` with each row rounded to 2^bits - 1 levels symmetric about zero."""
    levels = 2 ** (bits - 1) - 1
    scale = matrix.abs().amax(dim=1, keepdim=True) / levels
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    return torch.round(matrix / scale) * scale


def quantize(model: Qwen2ForCausalLM, bits: int) -> None:
    """Round every weight matrix of `model` in place; norms and biases stay as they are."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.copy_(round_to_bits(parameter, bits))


def recipe_of(bits: int, seed: int) -> dict[str, int]:
    """Return what the model's bytes depend on, so that a folder says whether it is current."""
    return {"recipe": 1, "bits": bits, "seed": seed}


def is_current(folder: Path, recipe: dict[str, int]) -> bool:
    """Return whether `folder` holds the model of `recipe`."""
    try:
        return bool(json.loads((folder / RECIPE).read_text()) == recipe)
    except (OSError, ValueError):
        return False


def put_in_place(made: Path, folder: Path, recipe: dict[str, int], aside: Path) -> None:
    """Rename `made` to `folder`, an outdated folder to `aside`; one finished meanwhile stays."""
    for _ in range(10):
        try:
            made.rename(folder)
        except OSError:
            if is_current(folder, recipe):
                return
            with suppress(FileNotFoundError):
                folder.rename(aside)
        else:
            return
    message = f"{folder} is in the way and cannot be replaced"
    raise SystemExit(message)


def make(folder: Path, *, bits: int, seed: int) -> str:
    """Make the model in `folder` unless it is there; return one line that says what was done."""
    recipe = recipe_of(bits, seed)
    if is_current(folder, recipe):
        return f"{folder} is there already ({bits} bits, seed {seed})"
    disable_progress_bar()
    tokenizer = byte_tokenizer()
    model = seeded_model(tokenizer, seed)
    if bits < FULL_BITS:
        quantize(model, bits)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        made = Path(scratch) / "model"
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        (made / RECIPE).write_text(json.dumps(recipe))
        put_in_place(made, folder, recipe, Path(scratch) / "old")
    return f"made {folder} ({bits} bits, seed {seed})"


def main() -> None:
    """Read the arguments, make the model, print one line."""
    parser = argparse.ArgumentParser(description="Make a tiny random model for vLLM.")
    parser.add_argument("folder", type=Path, metavar="OUT_DIR")
    parser.add_argument("--bits", type=int, choices=(FULL_BITS, 8, 6, 4), default=FULL_BITS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(make(arguments.folder.absolute(), bits=arguments.bits, seed=arguments.seed))


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    main()
