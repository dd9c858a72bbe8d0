"""Errors: the caller's to mend, of buckets, of containers, and of jobs."""

from __future__ import annotations

from typing import Any

KINDS = {str: "a text", int: "a whole number"}


class InvalidInput(ValueError):
    """The caller sent something unusable: 400 with this text, which the caller reads."""

    status, code = 400, "invalid_input"

    def __init__(self, *text: Any, asked: object | None = None) -> None:
        super().__init__(*text)
        # What was asked for what it has not: a body, an object of its JSON, headers. It tells whose error it is in a batch.
        self.asked = asked


class UnsupportedMediaType(InvalidInput):
    """The caller sent a body of another type than the one that was asked for: 415."""

    status, code = 415, "unsupported_media_type"


class KvError(Exception):
    """Why a bucket has not done what it should. `kind` is one of no-such-bucket, invalid, limit, unavailable."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class JobError(Exception):
    """Why something was not done with a job. `kind` is one of invalid, conflict, limit, unavailable."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class BlobError(Exception):
    """Why a container has not done what it should, in the host's words."""


def checked(value: Any, what: str, kind: type = str) -> Any:
    """A value that the host is given; one of another type would end the instance."""
    if not isinstance(value, kind):
        raise TypeError(f"{what} is {KINDS[kind]}, and not {type(value).__name__}")
    return value
