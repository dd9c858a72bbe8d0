"""What Python has in a component: the standard library without files, coroutines, forms, headers, variables."""

import asyncio
import concurrent.futures
import datetime
import os
import threading

from modelhost_guest import App, Response

app = App()
# Read while the component is built.
TOP = os.environ.get("WORD", "not set")


@app.init
def load(metadata):
    return {"word": os.environ.get("WORD")}


@app.get("/variables")
def variables(context, request):
    return [TOP, context["word"], os.environ.get("WORD")]


@app.get("/library")
def library(request):
    year = datetime.datetime.strptime("2024-01-02", "%Y-%m-%d").year
    texts = [b"\x80".decode("cp1252"), b"\x82\xa0".decode("shift_jis"), b"\xef\xbb\xbfx".decode("utf-8-sig")]
    return [year, *texts, "bücher.de".encode("idna").decode()]


@app.get("/pool")
async def pool(request):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return [*pool.map(abs, [-1, 2]), await asyncio.to_thread(abs, -3)]


@app.get("/run")
def run(request):
    return asyncio.run(asyncio.sleep(0.001, "slept"))


@app.get("/late")
def late(request):
    import colorsys

    return colorsys.rgb_to_hsv(0, 0, 0)


@app.get("/thread")
def thread(request):
    threading.Thread(target=print).start()


@app.get("/stream")
async def stream(request):
    async def pieces():
        for number in range(3):
            await asyncio.sleep(0.001)
            yield str(number)

    return pieces()


@app.get("/cookies/{how}")
def cookies(request):
    given = {"pairs": [("set-cookie", "a=1"), ("set-cookie", "b=2")], "list": {"set-cookie": ["a=1", "b=2"]}, "wrong": {"x-a": 1}}
    return Response("x", headers=given[request.params["how"]])


@app.post("/form")
def form(request):
    return [[name, it if isinstance(it, str) else [it.filename, it.content_type, it.size]] for name, it in request.form.multi_items()]
