"""The exports of the component: classes that the bindings look for in the module `app`."""

import sys

from . import _stdlib

MODULE = "app"


def put(module, name, export):
    """Puts an export into the module of the function that it is made of, and into `app`, which may import that module."""
    made = _stdlib.whole(export)
    setattr(sys.modules[module], name, made)
    if sys.platform == "wasi" and MODULE in sys.modules:
        setattr(sys.modules[MODULE], name, made)
