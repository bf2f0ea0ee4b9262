"""The tokenizer (one token for each UTF-8 byte) and the chat template.

The template is ChatML's: every message is `<|im_start|>ROLE`, a line feed, the text, `<|im_end|>`
and a line feed; the prompt ends with `<|im_start|>assistant` and a line feed. The markers are plain
text, hence one token a byte as well. The next turn of a chat therefore begins with the prompt and
the answer of the turn before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

GENERATION_PROMPT = "<|im_start|>assistant\n"


def encode(text: str) -> bytes:
    """Return the tokens of a text; a lone surrogate counts as `?`."""
    return text.encode("utf-8", errors="replace")


def decode(tokens: bytes) -> str:
    """Return the text of tokens; a broken sequence shows as U+FFFD."""
    return tokens.decode("utf-8", errors="replace")


def render_chat(
    messages: Iterable[Mapping[str, Any]], *, add_generation_prompt: bool = True
) -> str:
    """Return the prompt of a chat."""
    turns = (
        f"<|im_start|>{message.get('role', 'user')}\n{_content(message)}<|im_end|>\n"
        for message in messages
    )
    return "".join(turns) + (GENERATION_PROMPT if add_generation_prompt else "")


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, Mapping))
        return "\n".join(str(part) for part in parts)
    return "" if content is None else str(content)
