"""A head that is like the connection's last is not read anew, and means what it says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.gateway.http.errors import BadRequestError
from ds4watch.gateway.http.head import HeadReader, parse_head

LINES = st.sampled_from(
    [
        *(b"Content-Length: 7", b"content-length: 007", b"Content-Length:7"),
        *(b"Content-Length: 7 ", b"Content-Length: +7", b"Content-Length: 7, 7"),
        *(b"Content-Length: ", b"Content-Length: 7x", b"Content-Length: 7777777777777777"),
        *(b"Transfer-Encoding: chunked", b"Expect: 100-continue", b"Connection: close"),
        *(b"X: Content-Length: 7", b"Authorization: Bearer a", b"Host: y"),
    ]
)  # fmt: skip
LENGTHS = st.sampled_from([b"Content-Length: 1", b"Content-Length: 23", b"Content-Length: 456"])


def read_by(reader: HeadReader | None, raw: bytes) -> object:
    try:
        head = parse_head(raw) if reader is None else reader.read(raw)
    except BadRequestError as error:
        return error.status, str(error)
    # The raw length differs where the head was not read anew; nobody passes it on.
    seen = [(name, value) for name, value in head.headers.raw if name.lower() != b"content-length"]
    return head.method, head.path, head.query, head.length, head.keep_alive, seen


def head_of(method: bytes, lines: list[bytes]) -> bytes:
    return b"%b /v1/x HTTP/1.1\r\nHost: x\r\n%b\r\n" % (
        method,
        b"".join(b"%b\r\n" % it for it in lines),
    )


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b"POST", b"GET"]),
            st.lists(LINES, max_size=2),
            LENGTHS,
            st.lists(LINES, max_size=1),
        ),
        max_size=6,
    )
)
def test_heads_one_after_the_other_mean_what_each_means_alone(
    given: list[tuple[bytes, list[bytes], bytes, list[bytes]]],
) -> None:
    reader = HeadReader()
    for method, before, length, behind in given:
        for lines in ([*before, length, *behind], [*before, *behind]):
            raw = head_of(method, lines)
            assert read_by(reader, raw) == read_by(None, raw)


def test_only_the_length_of_the_same_head_again_is_read() -> None:
    reader = HeadReader()
    first = reader.read(head_of(b"POST", [b"Content-Length: 5", b"Authorization: Bearer a"]))
    again = reader.read(head_of(b"POST", [b"Content-Length: 60", b"Authorization: Bearer a"]))
    other = reader.read(head_of(b"POST", [b"Content-Length: 60", b"Authorization: Bearer b"]))
    assert (first.length, again.length, other.length) == (5, 60, 60)
    assert again.headers is first.headers
    assert other.headers is not first.headers
    assert other.headers["authorization"] == "Bearer b"
