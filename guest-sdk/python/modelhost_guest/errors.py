"""Errors: the caller's to mend, and of buckets."""


class InvalidInput(ValueError):
    """The caller sent something unusable: 400 with this text, which the caller reads."""


class KvError(Exception):
    """Why a bucket has not done what it should. `kind` is one of no-such-bucket, invalid, limit, unavailable."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind
