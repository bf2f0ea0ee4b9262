"""One attempt at one worker: send the request, pass the answer on, note what it used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ds4watch.gateway import headers as names
from ds4watch.gateway.answer_scores import AnswerScores
from ds4watch.gateway.call import Call
from ds4watch.gateway.headers import lines_for_client
from ds4watch.gateway.http.errors import BrokenAnswerError, StaleConnectionError, WorkerGoneError
from ds4watch.gateway.http.message import Request, Response, Stream, header_line
from ds4watch.gateway.http.pool import Pool, origin_of
from ds4watch.gateway.http.upstream import WorkerConnection
from ds4watch.gateway.output_rules import OutputRules
from ds4watch.gateway.replies import RefusedError, Reply
from ds4watch.gateway.worker_keys import WorkerKeys
from ds4watch.model.errors import EdgeReason, UpstreamError
from ds4watch.model.ports import Clock
from ds4watch.model.usage import RequestOutcome, RetryReason, Usage
from ds4watch.model.worker import WorkerView
from ds4watch.routing.retry import Failure, failure_of_status
from ds4watch.shaping.answer_filter import AnswerFilter
from ds4watch.shaping.request import RequestKind, Shaped
from ds4watch.shaping.sse import OversizedEventError, SseRelay
from ds4watch.shaping.sse_responses import ResponsesRelay
from ds4watch.shaping.text_score import MAX_BYTES
from ds4watch.shaping.usage import usage_at_the_end

_MAX_ANSWER_BYTES = 256 << 20

_REASONS = {
    RetryReason.CONNECT: EdgeReason.CONNECT,
    RetryReason.TIMEOUT: EdgeReason.TIMEOUT,
    RetryReason.STATUS_5XX: EdgeReason.STATUS,
    RetryReason.BUSY: EdgeReason.FULL,
    RetryReason.BROKEN: EdgeReason.BODY,
    RetryReason.UNAUTHORIZED: EdgeReason.STATUS,
}


class AttemptError(UpstreamError):
    """A worker did not answer as it should."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail, reason=_REASONS[failure.reason], retryable=True)
        self.failure = failure


class Relay:
    """The way to the workers and back."""

    def __init__(
        self,
        pool: Pool,
        clock: Clock,
        *,
        rules: OutputRules,
        scores: AnswerScores,
        keys: WorkerKeys,
    ) -> None:
        self._pool = pool
        self._keys = keys
        self._rules = rules
        self._scores = scores
        self._clock = clock

    async def attempt(
        self,
        request: Request,
        call: Call,
        worker: WorkerView,
        *,
        shaped: Shaped,
        payload: bytes,
        headers: bytes,
    ) -> Response | Stream:
        """Return the response made of the worker's answer.

        Raises AttemptError if the worker failed. A stream has been sent in full on return;
        `call.response` says whether one was begun.
        """
        if shaped.kind is RequestKind.RESPONSES:
            self._refuse_unfiltered(call)
        try:
            origin = origin_of(worker.url)
            key = b"" if worker.api_key_file is None else self._keys.line(worker)
            head = b"POST %b%b HTTP/1.1\r\n%b%b%bContent-Length: %d\r\n\r\n" % (
                origin.prefix, request.head.target, origin.host_line, key, headers, len(payload),
            )  # fmt: skip
            answer = await self._pool.ask(origin, head, payload)
            try:
                filtering = self._filter_of(call, answer)
                if answer.head.is_stream:
                    return await self._stream(request, call, answer, shaped, filtering)
                body = answer.read_at_once() or await answer.read(_MAX_ANSWER_BYTES)
                return self._whole(call, answer, body, filtering)
            finally:
                self._pool.give_back(origin, answer)
        except (WorkerGoneError, ValueError) as error:
            raise AttemptError(Failure(RetryReason.CONNECT), _said(error)) from error
        except TimeoutError as error:
            raise AttemptError(Failure(RetryReason.TIMEOUT), "no answer in time") from error
        except (BrokenAnswerError, StaleConnectionError, OSError) as error:
            raise AttemptError(Failure(RetryReason.BROKEN), _said(error)) from error

    def _refuse_unfiltered(self, call: Call) -> None:
        """Refuse what the output filter cannot read but has rules for. Raises RefusedError."""
        if self._rules.filter_of(call) is not None:
            message = "Answers are filtered here, and those of this path cannot be: use chat"
            raise RefusedError(Reply(403, message, "path_not_filtered"))

    def _filter_of(self, call: Call, answer: WorkerConnection) -> AnswerFilter | None:
        """Return what filters an answer. Raises AttemptError, or RefusedError if it cannot be."""
        status = answer.head.status
        failure = failure_of_status(status)
        if failure is not None:
            raise AttemptError(failure, f"status {status}")
        filtering = self._rules.filter_of(call) if status < 400 else None
        if filtering is not None:
            _refuse_packed(answer, call)
        return filtering

    def _whole(
        self, call: Call, answer: WorkerConnection, body: bytes, filtering: AnswerFilter | None
    ) -> Response:
        call.first_byte_at = self._clock.monotonic()
        head = answer.head
        is_good = head.status < 400
        call.end(head.status, RequestOutcome.OK if is_good else RequestOutcome.CLIENT_ERROR)
        lines = lines_for_client(head) + call.own_lines()
        if is_good:
            call.usage = usage_at_the_end(body)
            if self._scores.tap() is not None:
                self._scores.note(call.worker, body, stream=False)
            if filtering is not None:
                body = filtering.whole(body)
                self._rules.count(filtering)
                call.filter = mark = filtering.mark()
                lines += header_line(names.FILTER, mark) if mark else b""
        return Response(head.status, body, lines)

    async def _stream(
        self,
        request: Request,
        call: Call,
        answer: WorkerConnection,
        shaped: Shaped,
        filtering: AnswerFilter | None,
    ) -> Stream:
        sse, tap = _sse_of(shaped), self._scores.tap()
        look = sse if filtering is None and tap is None else _Look(sse, filtering, tap)
        feed = look.feed_all

        def take(chunks: list[bytes]) -> None:
            """Send what is for the client, after the headers if it is the first."""
            if data := feed(chunks):
                stream = call.response or self._begin(request, call, answer, sse)
                if answer.is_whole:
                    stream.hold(data)
                else:
                    stream.write(data)

        try:
            await answer.pump(take)
            if rest := look.finish():
                (call.response or self._begin(request, call, answer, sse)).hold(rest)
            if call.response is None or not (sse.done or sse.error):
                raise AttemptError(Failure(RetryReason.BROKEN), "the stream ended early")
            is_good = sse.error is None
            call.end(200, RequestOutcome.OK if is_good else RequestOutcome.UPSTREAM_ERROR)
            if tap is not None and is_good:
                self._scores.note(call.worker, tap, stream=True)
            call.response.end()
        except OversizedEventError as error:
            raise AttemptError(Failure(RetryReason.BROKEN), _said(error)) from error
        finally:
            if filtering is not None:
                self._rules.count(filtering)
                call.filter = filtering.mark()
            if call.response is not None:
                call.response.on_flow(None)
            _book_usage(call, sse)
        return call.response

    def _begin(
        self, request: Request, call: Call, answer: WorkerConnection, sse: SseRelay
    ) -> Stream:
        """Send the headers, unless an error is all that there is to send."""
        if sse.error is not None:
            raise AttemptError(_failure_told(sse.error), str(sse.error.get("message"))[:200])
        call.first_byte_at = self._clock.monotonic()
        call.turn.first_token()
        lines = lines_for_client(answer.head) + call.own_lines()
        call.response = request.stream(200, lines)
        if not answer.is_whole:
            call.response.on_flow(answer.flow)  # a slow client holds the worker back
        return call.response


def _book_usage(call: Call, sse: SseRelay) -> None:
    """Note what was used: of a stream that was cut, what was told last, or what was delivered."""
    is_whole = sse.done or sse.has_final_usage
    call.usage = sse.usage
    if call.usage is None and sse.deltas and not is_whole:
        call.usage = Usage(call.prompt_tokens, 0, sse.deltas)
    call.estimated = call.usage is not None and not is_whole


class _Look:
    """A stream that is filtered, or of which a beginning is kept to be scored."""

    def __init__(
        self, sse: SseRelay, filtering: AnswerFilter | None, tap: bytearray | None
    ) -> None:
        self._sse = sse
        self._filtering = filtering
        self._tap = tap

    def feed_all(self, chunks: Sequence[bytes]) -> bytes:
        """Return what goes to the client now."""
        if self._tap is not None and len(self._tap) < MAX_BYTES:
            self._tap += b"".join(chunks)
        return self._filtered(self._sse.feed_all(chunks))

    def finish(self) -> bytes:
        """Return what is left."""
        return self._filtered(self._sse.finish())

    def _filtered(self, data: bytes) -> bytes:
        return data if self._filtering is None else self._filtering.feed(data)


def _sse_of(shaped: Shaped) -> SseRelay:
    if shaped.kind is RequestKind.RESPONSES:
        return ResponsesRelay()
    return SseRelay(
        keep_last=shaped.client_wants_usage, keep_each=shaped.client_wants_continuous_usage
    )


def _refuse_packed(answer: WorkerConnection, call: Call) -> None:
    """Refuse an answer that the output filter cannot read. Raises RefusedError."""
    for name, value in answer.head.headers:
        if name.lower() == b"content-encoding" and value.strip().lower() != b"identity":
            packing = value.decode("latin-1")[:50]
            message = (
                "Answers are filtered here, and this one cannot be read: worker "
                f"{call.worker} sent it packed ({packing}), though asked not to"
            )
            reply = Reply(502, message, "answer_not_filtered", kind="api_error")
            raise RefusedError(reply, outcome=RequestOutcome.UPSTREAM_ERROR)


def _failure_told(error: dict[str, Any]) -> Failure:
    code = error.get("code")
    told = failure_of_status(code) if isinstance(code, int) and code < 600 else None
    return told or Failure(RetryReason.STATUS_5XX, 500)


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
