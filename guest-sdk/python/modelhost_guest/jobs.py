"""Jobs of the handler's own endpoint, which has to have some, `jobs = "on"`: requests that are stored, and run later as a `POST`.

In a test the jobs are in memory and none is run: `submitted()` says which there are, `finish(id)` ends one, `forget()` begins anew.
"""

from __future__ import annotations

import json as _json
import math
import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from . import _host
from .errors import JobError, checked
from .messages import content, to_json

if TYPE_CHECKING:
    HeadersGiven = Mapping[str, str] | Iterable[tuple[str, str]]

TEXTS = {
    "conflict": "the idempotency key was used for another job",
    "unavailable": "the store of the jobs cannot be used: {}",
}

_stored: list[Any] = []


class Job:
    """A job. `state` is queued, running, completed, failed or cancelled; times are seconds since 1970."""

    def __init__(self, id: str, state: str, attempt: int, attempts: int, submitted: float, changed: float, error: str | None = None, status: int | None = None) -> None:
        self.id, self.state = id, state
        self.attempt, self.attempts = attempt, attempts
        self.submitted, self.changed = submitted, changed
        self.error, self.status = error, status

    def __repr__(self) -> str:
        return f"Job({self.id!r}, {self.state!r})"


class Answer:
    """The answer to a job: `status`, `headers` with names in lower case, `body`."""

    def __init__(self, status: int, headers: HeadersGiven, body: bytes) -> None:
        self.status, self.headers, self.body = status, dict(headers), bytes(body)

    @property
    def json(self) -> Any:
        """The body as JSON."""
        try:
            return _json.loads(self.body)
        except ValueError as error:
            raise JobError("invalid", f"the answer: {error}") from None


def submit(
    path: str = "/",
    *,
    json: Any = None,
    body: str | bytes | None = None,
    content_type: str | None = None,
    headers: HeadersGiven | None = None,
    priority: int | None = None,
    delay: float | None = None,
    wait: float | None = None,
    attempts: int | None = None,
    webhook: str | None = None,
    idempotency_key: str | None = None,
) -> Job:
    """Stores a job, and gives it when it is stored: a `POST` of `json` or `body`, a text or bytes, to the path below the endpoint's own.

    Priority 0 comes first, 2 last. `delay` is how many seconds it is not run yet, `wait` after how many it fails if it has not
    begun. A second submission with the same key is the same job: a job that submits others may run again.
    """
    given_body, pairs = content(json, body, content_type, headers)
    checked(path, "a path")
    for name, value, kind in (
        ("a webhook", webhook, str), ("an idempotency key", idempotency_key, str), ("a priority", priority, int), ("attempts", attempts, int),
    ):  # fmt: skip
        if value is not None:
            checked(value, name, kind)
    if priority is not None and not 0 <= priority <= 255:
        raise JobError("invalid", "the priority is not 0 to 2")
    if attempts is not None and not 0 <= attempts < 2**32:
        raise JobError("invalid", "that is no number of attempts")
    delay, wait = _milliseconds(delay), _milliseconds(wait)
    given = (path, pairs, given_body, priority, delay, wait, attempts, webhook, idempotency_key)
    if _host.types is None:
        return _submit(*given)
    return _job(_asked(lambda host: host.submit(host.Submission(*given))))


def get(id: str) -> Job | None:
    """A job of the endpoint, or None."""
    checked(id, "a job's id")
    if _host.types is None:
        return next((it.job for it in _stored if it.job.id == id), None)
    job = _asked(lambda host: host.get(id))
    return None if job is None else _job(job)


def get_answer(id: str) -> Answer | None:
    """The answer to a job, or None as long as it has none."""
    checked(id, "a job's id")
    if _host.types is None:
        return next((it.answer for it in _stored if it.job.id == id), None)
    answer = _asked(lambda host: host.get_answer(id))
    return None if answer is None else Answer(answer.status, answer.headers, answer.body)


def cancel(id: str) -> Any:
    """Cancels a job, whose run is stopped, and gives it; one that is finished stays as it is. None if there is none."""
    checked(id, "a job's id")
    if _host.types is None:
        job = get(id)
        if job is not None and job.state in ("queued", "running"):
            job.state, job.changed = "cancelled", time.time()
        return job
    job = _asked(lambda host: host.cancel(id))
    return None if job is None else _job(job)


def submitted() -> list[Any]:
    """For tests: what was submitted, each with its `job`, `path`, `headers`, `body`, `priority`, `delay`, `idempotency_key`, ….

    A `delay` and a `wait` are in milliseconds.
    """
    return list(_stored)


def finish(id: str, status: int = 200, json: Any = None, headers: HeadersGiven = ()) -> None:
    """For tests: a job ends with this answer, which fails if it is an error."""
    stored = next(it for it in _stored if it.job.id == id)
    stored.answer = Answer(status, headers, to_json(json))
    stored.job.state = "completed" if status < 400 else "failed"
    stored.job.attempt, stored.job.status, stored.job.changed = 1, status, time.time()


def forget() -> None:
    """For tests: forgets all jobs."""
    _stored.clear()


def _submit(path: str, headers: Any, body: bytes, priority: int | None, delay: float | None, wait: float | None, attempts: int | None, webhook: str | None, key: str | None) -> Any:
    if not path.startswith("/"):
        raise JobError("invalid", "the path is none: it begins with `/`")
    known = next((it for it in _stored if key is not None and it.idempotency_key == key), None)
    if known is not None:
        if (known.path, known.body) != (path, body):
            raise JobError("conflict", TEXTS["conflict"])
        return known.job
    now = time.time()
    job = Job(f"00000000-0000-7000-8000-{len(_stored) + 1:012}", "queued", 0, attempts or 3, now, now)
    _stored.append(
        SimpleNamespace(
            job=job, path=path, headers=dict(headers), body=body, priority=priority, delay=delay, wait=wait,
            attempts=attempts, webhook=webhook, idempotency_key=key, answer=None,
        )
    )  # fmt: skip
    return job


def _asked(call: Callable[..., Any]) -> Any:
    if _host.jobs is None:
        raise RuntimeError(
            "the handler imports no jobs: add `include modelhost:handler/job-imports@0.1.0;` to the world in wit/world.wit"
        )
    try:
        return call(_host.jobs)
    except _host.Err as error:
        kind = _host.kind(error.value)
        text = TEXTS.get(kind, "{}").format(getattr(error.value, "value", ""))
        raise JobError(kind, text) from None


def _job(job: Any) -> Any:
    state = job.state.name.lower()
    times = job.submitted_ms / 1000, job.changed_ms / 1000
    return Job(job.id, state, job.attempt, job.attempts, *times, job.error, job.status)


def _milliseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    milliseconds = seconds * 1000
    if not 0 <= milliseconds < 2**63:
        raise JobError("invalid", f"a time of {seconds} seconds")
    return math.ceil(milliseconds)
