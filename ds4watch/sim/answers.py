"""Bodies and stream chunks, with the keys of vLLM 0.32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ds4watch.sim.asks import Ask
from ds4watch.sim.generation import Finish, Generation
from ds4watch.sim.text import LogprobModel, TokenLogprob
from ds4watch.sim.tokens import decode

Json = dict[str, Any]


class Answerer:
    """Writes the answers to one request. `chat` tells the two shapes apart."""

    def __init__(
        self, ask: Ask, *, chat: bool, request_id: str, created: int, model: LogprobModel
    ) -> None:
        self._ask = ask
        self._chat = chat
        self._id = request_id
        self._created = created
        self._model = model

    def full(self, sequences: Sequence[tuple[Generation, Finish]]) -> Json:
        """Return the body of an answer that is not streamed."""
        generations = [generation for generation, _ in sequences]
        body: Json = {
            "id": self._id,
            "object": "chat.completion" if self._chat else "text_completion",
            "created": self._created,
            "model": self._ask.model,
            "choices": [
                self._choice(index, generation, finish)
                for index, (generation, finish) in enumerate(sequences)
            ],
            "service_tier": None,
            "system_fingerprint": None,
            "usage": usage(self._ask, generations)
            | {
                "prompt_tokens_details": cached_details(generations),
                "completion_tokens_details": None,
            },
        }
        if self._chat:
            body["prompt_logprobs"] = self._prompt_logprobs(generations[0])
        return body

    def _choice(self, index: int, generation: Generation, finish: Finish) -> Json:
        answer = generation.answer[: generation.generated]
        text = self._visible(decode(answer), finish)
        choice: Json = {"index": index}
        if self._chat:
            choice["message"] = {
                "role": "assistant",
                "content": text,
                "refusal": None,
                "annotations": None,
                "audio": None,
                "function_call": None,
                "reasoning": None,
            }
            choice["logprobs"] = self._logprobs(generation, 0, generation.generated)
        else:
            choice["text"] = (decode(generation.prompt) if self._ask.echo else "") + text
            choice["logprobs"] = self._completion_logprobs(generation)
        choice |= {"finish_reason": str(finish), "stop_reason": self._stop_reason(answer, finish)}
        if not self._chat:
            choice["prompt_logprobs"] = self._prompt_logprobs(generation)
        return choice

    def _stop_reason(self, answer: bytes, finish: Finish) -> str | None:
        if finish is not Finish.STOP:
            return None
        text = decode(answer)
        return next((stop for stop in self._ask.stop if stop and text.endswith(stop)), None)

    def _visible(self, text: str, finish: Finish) -> str:
        """Return the text without a stop string at its end."""
        stop = self._stop_reason(text.encode(), finish)
        return text.removesuffix(stop) if stop else text

    def first_chunk(self, index: int, generation: Generation) -> Json | None:
        """Return the chunk that opens a choice: its role; completions have none."""
        if not self._chat:
            return None
        delta = {"role": "assistant", "content": ""}
        choice: Json = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        return self._chunk(choice, generation, completion_tokens=0)

    def token_chunk(
        self, index: int, generation: Generation, position: int, finish: Finish | None
    ) -> Json:
        """Return the chunk of one token, or of no more tokens if `finish` is an abort."""
        end = position if finish is Finish.ABORT else position + 1
        text = self._visible_part(generation, position, end)
        logprobs = self._logprobs(generation, position, end)
        choice: Json = {"index": index}
        if self._chat:
            choice["delta"] = {"content": text}
        else:
            echoed = decode(generation.prompt) if self._ask.echo and position == 0 else ""
            choice["text"] = echoed + text
        choice |= {"logprobs": logprobs, "finish_reason": str(finish) if finish else None}
        if finish or not self._chat:
            choice["stop_reason"] = self._stop_reason(
                generation.answer[:end], finish or Finish.LENGTH
            )
        return self._chunk(choice, generation, completion_tokens=end)

    def _visible_part(self, generation: Generation, start: int, end: int) -> str:
        """Return the text of some tokens, without what belongs to a stop string at the end."""
        whole = generation.answer
        shown = self._visible(decode(whole), generation.finish).encode()
        return decode(whole[start : min(end, len(shown))])

    def _chunk(self, choice: Json, generation: Generation, *, completion_tokens: int) -> Json:
        chunk = self._chunk_head() | {"choices": [choice]}
        if self._ask.continuous_usage:
            chunk["usage"] = _usage(len(generation.prompt), completion_tokens)
        return chunk

    def _chunk_head(self) -> Json:
        return {
            "id": self._id,
            "object": "chat.completion.chunk" if self._chat else "text_completion",
            "created": self._created,
            "model": self._ask.model,
        }

    def usage_chunk(self, generations: Sequence[Generation]) -> Json:
        """Return the last chunk of a stream with include_usage."""
        total = usage(self._ask, generations)
        details = {
            name: value for name, value in cached_details(generations).items() if value is not None
        }
        return self._chunk_head() | {
            "choices": [],
            "usage": total | {"prompt_tokens_details": details},
        }

    def _walk(self, generation: Generation, start: int, end: int) -> list[list[TokenLogprob]]:
        size = len(generation.prompt)
        tokens = generation.prompt + generation.answer[:end]
        top = self._ask.top_logprobs or 0
        return list(self._model.walk(tokens, top=top, start=size + start))

    def _logprobs(self, generation: Generation, start: int, end: int) -> Json | None:
        if self._ask.top_logprobs is None:
            return None
        positions = self._walk(generation, start, end)
        if not self._chat:
            return _completion_logprobs(positions, offset=start)
        content = [
            _shown(own) | {"top_logprobs": [_shown(other) for other in likeliest]}
            for own, *likeliest in positions
        ]
        return {"content": content}

    def _completion_logprobs(self, generation: Generation) -> Json | None:
        if self._ask.top_logprobs is None:
            return None
        start = -len(generation.prompt) if self._ask.echo else 0
        positions = self._walk(generation, start, generation.generated)
        return _completion_logprobs(positions, has_start=self._ask.echo)

    def _prompt_logprobs(self, generation: Generation) -> list[Json | None] | None:
        top = self._ask.prompt_logprobs
        if top is None:
            return None
        positions = self._model.walk(generation.prompt, top=top)
        rows: list[Json | None] = [
            {
                str(entry.token): {
                    "logprob": entry.logprob,
                    "rank": entry.rank,
                    "decoded_token": decode(bytes((entry.token,))),
                }
                for entry in position
            }
            for position in positions
        ]
        # Nothing comes before the first token, so it has no probability.
        return [None, *rows[1:]]


def usage(ask: Ask, generations: Sequence[Generation]) -> Json:
    """Return the token counts of a request; a prompt counts once however many answers it has."""
    prompt_tokens = sum(map(len, ask.prompts))
    return _usage(prompt_tokens, sum(generation.generated for generation in generations))


def _usage(prompt_tokens: int, completion_tokens: int) -> Json:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def cached_details(generations: Sequence[Generation]) -> Json:
    """Return `prompt_tokens_details`; choices of one prompt count once, by their first."""
    cached = sum(item.cached for item in generations if item.is_first_of_request)
    return {"cached_tokens": cached, "created_cache_tokens": None, "multimodal_tokens": None}


def _shown(entry: TokenLogprob) -> Json:
    token = bytes((entry.token,))
    return {"token": decode(token), "logprob": entry.logprob, "bytes": list(token)}


def _completion_logprobs(
    positions: Sequence[Sequence[TokenLogprob]], *, has_start: bool = False, offset: int = 0
) -> Json:
    tokens = [decode(bytes((own.token,))) for own, *_ in positions]
    offsets = list(range(offset, offset + len(tokens)))
    values: list[float | None] = [own.logprob for own, *_ in positions]
    tops: list[Json | None] = [
        {decode(bytes((entry.token,))): entry.logprob for entry in reversed(position)}
        for position in positions
    ]
    if has_start and values:
        values[0], tops[0] = None, None
    return {
        "text_offset": offsets,
        "token_logprobs": values,
        "tokens": tokens,
        "top_logprobs": tops,
    }
