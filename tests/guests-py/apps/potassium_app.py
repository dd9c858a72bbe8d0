"""An application in Potassium's style: each route is a case of tests/it/potassium_apps.rs."""

import time

from potassium import Potassium, Response, RouteAlreadyInUse, send_webhook

app = Potassium("everything")


@app.init
def init():
    return {"hello": "world", "n": 0}


@app.handler()
def root(context, request):
    body = {"echo": request.json, "hello": context["hello"], "id": request.id}
    return Response(json=body, status=201, headers={"X-A": "b"})


@app.handler("/parent")
def parent(context, request):
    return Response(json={"at": "parent"})


@app.handler("parent/child")
def child(context, request):
    return Response(json={"at": "child"})


@app.handler("/count")
def count(context, request):
    context["n"] += 1
    return Response(json={"n": context["n"]})


@app.handler("/headers")
def headers(context, request):
    found = {name: request.headers.get(name) for name in ("A", "B", "X-Custom-Id", "none")}
    return Response(json={**found, "id": request.id}, headers={"A": "a", "X-Banana-Request-Id": request.id})


@app.handler("/bytes")
def whole(context, request):
    return Response(body=b"hello", headers={"Content-Type": "application/octet-stream"})


@app.handler("/pieces")
def pieces(context, request):
    def made():
        yield b"hello"
        yield b"world"

    return Response(body=made(), headers={"Content-Type": "application/octet-stream"})


@app.handler("/stream")
def stream(context, request):
    def made():
        for number in range(3):
            yield f"{number}\n".encode()
            time.sleep(0.2)

    return Response(body=made())


@app.handler("/streamboom")
def streamboom(context, request):
    def made():
        yield b"0"
        raise ValueError("kaput in the middle")

    return Response(body=made())


@app.handler("/slow")
def slow(context, request):
    time.sleep(request.json["seconds"])
    return Response(json={})


@app.handler("/boom")
def boom(context, request):
    raise ValueError("kaput")


@app.handler("/notresp")
def notresp(context, request):
    return {}


@app.background("/bg")
def bg(context, request):
    time.sleep(request.json["seconds"])
    context["n"] += 100


@app.background("/bgboom")
def bgboom(context, request):
    raise ValueError("kaput in the background")


@app.handler("/hook")
def hook(context, request):
    sent = send_webhook(request.json["url"], {"output": 1})
    return Response(json={"is_sent": sent is not None})


@app.handler("/collide")
def collide(context, request):
    """Registers what is there already."""
    refused = []
    for route in ("", "/", "count", "/count"):
        try:
            app.handler(route)
        except RouteAlreadyInUse:
            refused.append(route)
    return Response(json=refused)
