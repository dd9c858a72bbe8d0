"""An error of each kind, by the request's `kind`. A comment at the end of a line is the name that the test has for it."""

import asyncio
import json

import helpers
from modelhost_guest import App, InvalidInput

app = App()


@app.handler("/kinds")
def kinds(request):
    return KINDS[request.json["kind"]]()  # kinds


@app.handler("/async")
async def awaited(request):
    await asyncio.sleep(0)
    helpers.get({})  # async


@app.get("/stream")
def stream(request):
    yield "begun"
    helpers.get({})  # stream


@app.background("/background")
def background(request):
    helpers.get({})  # background


@app.batch("/batch")
def batch(requests):
    return [helpers.get({}) for _ in requests]  # batch


def own():
    raise ValueError("of my own\nin two lines")  # own


def helper():
    return helpers.get({})  # helper


def library():
    return json.loads("{nope")  # library


def recursion():
    return helpers.deep(0)  # recursion


def cause():
    try:
        helpers.get({})  # tried
    except KeyError as error:
        raise RuntimeError("while it was read") from error  # cause


def memory():
    return [bytes(1 << 20) for _ in range(1 << 20)]  # memory


def caller():
    raise InvalidInput("not this")


def loop():
    while True:
        pass


KINDS = {it.__name__: it for it in (own, helper, library, recursion, cause, memory, caller, loop)}
