"""The exports of the component: classes that the bindings look for in the module `app`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from . import _stdlib

MODULE = "app"


def put(module: str, name: str, export: Callable[[], Any]) -> None:
    """Puts an export into the module of the function that it is made of, and into `app`, which may import that module."""
    made = _stdlib.whole(export)
    setattr(sys.modules[module], name, made)
    if sys.platform == "wasi" and MODULE in sys.modules:
        setattr(sys.modules[MODULE], name, made)
