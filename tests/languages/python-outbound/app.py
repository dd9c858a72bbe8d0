"""An application that sends what the body of a `POST /` says, and answers with what came of it, as in every language: see
tests/it/libraries/outbound.rs.
"""

from modelhost_guest import App, OutboundError, outbound

app = App()


@app.handler("/")
def serve(request):
    try:
        return done(**request.json)
    except OutboundError as error:
        said = {"error": error.kind}
        return said if error.status is None else {**said, "status": error.status}


def done(do, url, headers=None, json=None, secret=None, attempts=1, pause_ms=1000, timeout_ms=30_000):
    timeout = timeout_ms / 1000
    if do == "webhook":
        pause = pause_ms / 1000
        response = outbound.send_webhook(url, json, secret=secret, attempts=attempts, pause=pause, timeout=timeout)
    elif do == "post":
        response = outbound.post(url, json=json, headers=headers, timeout=timeout)
    else:
        response = outbound.get(url, headers, timeout)
    answer = {"status": response.status}
    if do == "pieces":
        sizes = [len(piece) for piece in response]
        return {**answer, "pieces": len(sizes), "bytes": sum(sizes)}
    if do == "whole":
        return {**answer, "bytes": len(response.bytes())}
    if do == "left":
        response.read()
        return answer
    return {**answer, "headers": dict(response.headers), "text": response.text()}
