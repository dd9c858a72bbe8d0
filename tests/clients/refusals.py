"""What `tritonclient` raises where a host refuses a request.

Place in the flow: used by the scripts beside it. In: a call. Out: nothing, or an `AssertionError`.
"""

from tritonclient.utils import InferenceServerException


def refused(words, call):
    """Makes a call that must end in an error whose message has these words."""
    try:
        call()
    except InferenceServerException as error:
        assert words in error.message(), (words, error.message())
    else:
        raise AssertionError(f"{words} was not refused")
