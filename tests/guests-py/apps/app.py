"""Two applications in one component, each in the style of another system: `metadata = { style = "potassium" }` or `"truss"`.

Built by scripts/build-guests-py.sh with componentize-py to target/components/tests/apps_py.wasm.
"""

import json

import potassium_app
import truss_model
from host import Err
from wit_world import exports

STYLES = {"potassium": potassium_app.app, "truss": truss_model.server}
chosen = None


class Init(exports.Init):
    """Prepares the application that the endpoint wants."""

    def init(self, metadata):
        global chosen
        try:
            given = json.loads(metadata)
            chosen = STYLES[given["style"]]
            chosen.prepare(given)
        except Exception as error:
            raise Err(f"{type(error).__name__}: {error}") from None


class Operations(exports.Operations):
    """What it serves."""

    def operations(self):
        return chosen.operations()


class Respond(exports.Respond):
    """A request."""

    def respond(self, sample, context, output):
        return chosen.respond(sample, context, output)
