"""Which paths lead to workers. All others end here: sleep, LoRA, RPC… are nobody's from outside."""

from __future__ import annotations

from ds4watch.shaping.request import RequestKind

COMPLETIONS = {
    "/v1/chat/completions": RequestKind.CHAT,
    "/v1/completions": RequestKind.TEXT,
    "/v1/responses": RequestKind.RESPONSES,
    **dict.fromkeys(
        (
            "/v1/embeddings",
            "/v1/score",
            "/score",
            "/v1/rerank",
            "/v2/rerank",
            "/rerank",
            "/pooling",
            "/classify",
            "/tokenize",
            "/detokenize",
        ),
        RequestKind.OTHER,
    ),
}
"""Each takes a POST with the model's name in it."""

MODELS = "/v1/models"
HEALTH = "/health"


def meant_by(path: str) -> str | None:
    """Return the path that one leads to which a client's base address got wrong, if any."""
    parts = [part for part in path.split("/") if part not in ("", "v1")]
    meant = "/v1/" + "/".join(parts)
    return None if methods_of(meant) is None else meant


def methods_of(path: str) -> str | None:
    """Return the methods that a path takes, as the `Allow` header names them; None for no path."""
    if path in COMPLETIONS:
        return "POST, OPTIONS"
    if path in (MODELS, HEALTH) or path.startswith(MODELS + "/"):
        return "GET, HEAD, OPTIONS"
    return None
