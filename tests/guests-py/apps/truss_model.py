"""A model in Truss's style: what the request's `do` says is a case of tests/it/truss_apps.rs."""

import time

from truss import HTTPException, Request, Response, Server


class Model:
    INPUT = {"type": "object", "properties": {"do": {"type": "string"}}, "title": "Model"}

    def __init__(self, config, data_dir, secrets, environment):
        self._config, self._data_dir = config, data_dir
        self._secrets, self._environment = secrets, environment
        self._healthy = True
        self._loaded = 0

    def load(self):
        self._loaded += 1

    def is_healthy(self):
        return self._healthy

    def preprocess(self, inputs, request: Request):
        if isinstance(inputs, dict) and "test" in inputs:
            inputs["preprocessed"] = len(request.body())
        return inputs

    def predict(self, inputs, request: Request):
        if not isinstance(inputs, dict):
            return inputs
        if "healthy" in inputs:
            self._healthy = inputs["healthy"]
            return {}
        do = inputs.get("do")
        if do == "stream":
            return self.numbers(inputs)
        if do == "wait":
            time.sleep(inputs["seconds"])
            if request.is_disconnected():
                print("Cancelled (before gen).")
            return {"waited": inputs["seconds"]}
        if do == "watch":
            return self.watched(request)
        if do == "teapot":
            raise HTTPException(418, "teapot")
        if do == "boom":
            raise ValueError("a secret of the model's")
        if do == "status":
            return Response(b"as it is", inputs["status"], {"x-mine": "1"}, "text/plain")
        if do == "given":
            found = (self._data_dir / "x.txt").read_text()
            return {"config": self._config, "data": found, "environment": self._environment, "loaded": self._loaded}
        if do == "secret":
            return {"length": len(self._secrets[inputs["name"]])}
        return inputs

    def postprocess(self, outputs):
        if isinstance(outputs, dict) and "test" in outputs:
            outputs["postprocess"] = "was here"
        return outputs

    def chat_completions(self, inputs, request: Request):
        if inputs.get("stream"):
            return (f"data: {number}\n\n" for number in range(3))
        return {"got": inputs}

    @staticmethod
    def numbers(inputs):
        for number in range(inputs.get("count", 5)):
            if number == inputs.get("fails_after"):
                raise ValueError("in the middle")
            yield str(number)
            time.sleep(inputs.get("pause", 0))

    @staticmethod
    def watched(request):
        try:
            for _ in range(100):
                yield "x"
                time.sleep(0.1)
                if request.is_disconnected():
                    break
        finally:
            print("Cancelled (during gen).")


server = Server(Model)
