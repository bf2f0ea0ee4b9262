"""Names that vulture cannot see the use of, because somebody else's code uses them.

`hasattr` is how vulture is told; nothing here runs in a test. What is dead is removed, not listed.
"""

from __future__ import annotations


def used_by_sqlalchemy(of: object) -> None:
    hasattr(of, "load_dialect_impl")
    hasattr(of, "process_bind_param")
    hasattr(of, "process_result_value")
    hasattr(of, "impl")
    hasattr(of, "cache_ok")
    hasattr(of, "set_up")  # an event listener
    hasattr(of, "isolation_level")  # read by sqlite3


def used_by_other_libraries(of: object) -> None:
    hasattr(of, "log_errors")  # google-re2
    hasattr(of, "max_mem")
    hasattr(of, "formatTime")  # logging
    hasattr(of, "datefmt")  # logging
    hasattr(of, "capture_signals")  # uvicorn
    hasattr(of, "main_loop")  # uvicorn
    hasattr(of, "should_exit")  # uvicorn
    hasattr(of, "openapi")  # FastAPI asks for the document
    hasattr(of, "media_type")  # Starlette
    hasattr(of, "trace")  # the third argument of __exit__
    hasattr(of, "log_engine_initialized")  # vLLM
    hasattr(of, "trust_env")  # requests
    hasattr(of, "cert")  # requests
    hasattr(of, "__abstractmethods__")  # abc
    hasattr(of, "traceback")  # the third argument of __exit__
    hasattr(of, "ready_at_least")  # FastAPI writes it out
    hasattr(of, "unchanged")


def called_on_a_connection(of: object) -> None:
    hasattr(of, "connection_made")  # asyncio
    hasattr(of, "data_received")
    hasattr(of, "eof_received")
    hasattr(of, "connection_lost")
    hasattr(of, "pause_writing")
    hasattr(of, "resume_writing")
    hasattr(of, "on_message_begin")  # httptools
    hasattr(of, "on_url")
    hasattr(of, "on_header")
    hasattr(of, "on_headers_complete")
    hasattr(of, "on_body")
    hasattr(of, "on_message_complete")


def values_that_come_from_outside(of: object) -> None:
    hasattr(of, "TINY_MODEL")  # profiles
    hasattr(of, "CRITICAL")  # rule files
    hasattr(of, "END")  # the parser's text
    hasattr(of, "next_cursor")  # read by API clients
    hasattr(of, "expires_in_seconds")
    hasattr(of, "since_at")
    hasattr(of, "unmetered")
    hasattr(of, "worker_prompt_tokens")
    hasattr(of, "precision")  # profiles
    hasattr(of, "first_byte_seconds")  # the spool's readers
    hasattr(of, "TARGET_SERIES")  # the list of metrics in the docs
    hasattr(of, "STALE_NAN")  # storages other than ours
    hasattr(of, "PROFILE")  # members of enums that only users name, or that are gone through
    hasattr(of, "SPEED")
    hasattr(of, "measures")  # a field of an answer's body


if __name__ == "__main__":
    for group in (
        used_by_sqlalchemy,
        used_by_other_libraries,
        called_on_a_connection,
        values_that_come_from_outside,
    ):
        group(object())
