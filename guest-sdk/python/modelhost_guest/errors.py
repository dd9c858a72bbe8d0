"""Errors that are the caller's to mend."""


class InvalidInput(ValueError):
    """The caller sent something unusable: 400 with this text, which the caller reads."""
