"""What a call leaves is given up at its end: models' tensors, and the tasks of coroutines."""

import asyncio
import sys
import unittest
from types import SimpleNamespace
from unittest.mock import patch

from modelhost_guest import (
    App,
    InvalidInput,
    Tensor,
    _aio,
    _host,
    handler,
    init,
    models,
    post_inference,
    post_inference_tensors,
    pre_inference,
    pre_inference_tensors,
    truss,
)
from modelhost_guest._tensor import SIZES


class Err(Exception):
    def __init__(self, value):
        self.value = value


class Held:
    """A tensor that the host holds; `open` are those that are not given up yet."""

    open = set()

    @classmethod
    def make(cls, datatype, shape, data):
        made = cls()
        cls.open.add(made)
        return made

    def __exit__(self, *_):
        self.open.remove(self)


HOST = {
    "types": SimpleNamespace(
        Datatype={it: it for it in SIZES},
        Tensor=lambda name, datatype, shape, data: SimpleNamespace(
            name=name, datatype=SimpleNamespace(_name_=datatype), shape=shape, data=data
        ),
        Response=lambda *parts: parts,
        Error_InvalidInput=lambda text: text,
        Error_Internal=lambda text: text,
    ),
    "models": SimpleNamespace(Resident=Held),
    "Err": Err,
    "DATATYPES": {it: it for it in SIZES},
}


def hold():
    return models.Resident(Tensor([1.0]))


class ReleasedTest(unittest.TestCase):
    def setUp(self):
        models.answer_with(None)
        for name, value in HOST.items():
            patched = patch.object(_host, name, value, create=True)
            patched.start()
            self.addCleanup(patched.stop)
        patched = patch.object(handler, "_made", set())
        patched.start()
        self.addCleanup(patched.stop)
        Held.open.clear()
        self.context = SimpleNamespace()
        self.sample = SimpleNamespace(body=b"1", content_type="")

    def held(self, call):
        try:
            call()
        except Err:
            pass
        return len(Held.open)

    def test_tensors_of_models_go_with_the_request(self):
        kept = {}

        @pre_inference
        def prepare(sample):
            kept["tensor"] = hold()
            if kept.get("fails"):
                raise InvalidInput("as asked")
            return Tensor([1.0])

        @pre_inference_tensors
        def prepare_tensors(sample):
            return prepare(sample)

        pre = lambda: PreInference().pre_inference(self.sample, self.context)  # noqa: E731,F821
        pre_tensors = lambda: PreInferenceTensors().pre_inference_tensors([], self.context)  # noqa: E731,F821
        for call in (pre, pre_tensors):
            self.assertEqual(self.held(call), 0, "nothing comes after it")

        @post_inference
        def answer(outputs):
            hold()
            return len(Held.open)

        @post_inference_tensors
        def answer_tensors(outputs):
            hold()
            return Tensor([1.0])

        post = lambda: PostInference().post_inference([], self.context)  # noqa: E731,F821
        post_tensors = lambda: PostInferenceTensors().post_inference_tensors([], self.context)  # noqa: E731,F821
        for first, last in ((pre, post), (pre_tensors, post_tensors)):
            self.assertEqual(self.held(first), 1, "it is there for post-inference")
            self.assertEqual(self.held(first), 1, "a request that ended between the two")
            self.assertEqual(self.held(last), 0)
        pre()
        self.assertEqual(post()[3], b"2")
        kept["fails"] = True
        for first in (pre, pre_tensors):
            self.assertEqual(self.held(first), 0, "post-inference does not come")

    def test_tensors_of_init_go_with_it(self):
        @init
        def load(metadata):
            hold()

        self.assertEqual(self.held(lambda: Init().init("null")), 0)  # noqa: F821
        app = App("tests")
        app.init(load)
        self.assertEqual(self.held(lambda: Init().init("null")), 0)  # noqa: F821


class TasksTest(unittest.TestCase):
    def test_tasks_that_a_request_leaves_end_with_it(self):
        told = []

        async def works(name):
            try:
                for _ in range(1000):
                    await asyncio.sleep(0.001)
                    told.append(name)
            finally:
                await asyncio.sleep(0)
                told.append(f"end of {name}")

        class Model:
            async def load(self):
                self.lasting = asyncio.create_task(works("load"))

            async def predict(self, name):
                self.left = asyncio.create_task(works(name))
                await asyncio.sleep(0.01)
                return "done"

        truss(Model, __name__)
        Model.app.start()
        self.assertEqual(Model.app.answer(json="a").json, "done")
        self.assertIn("end of a", told)
        before = len(told)
        Model.app.answer(json="b")
        self.assertNotIn("a", told[before:])
        self.assertIn("load", told[before:])
        made = Model.app.context["model"]
        self.assertTrue(made.left.cancelled())
        made.lasting.cancel()

    def test_a_task_that_goes_on_does_not_keep_the_request(self):
        class Model:
            async def predict(self, value):
                async def stays():
                    while True:
                        try:
                            await asyncio.sleep(0.01)
                        except asyncio.CancelledError:
                            if self.may_end:
                                raise

                self.may_end, self.task = False, asyncio.create_task(stays())
                await asyncio.sleep(0)
                return value

        truss(Model, __name__)
        Model.app.start()
        with patch.object(_aio, "PATIENCE", 0.05):
            self.assertEqual(Model.app.answer(json=1).json, 1)
        model = Model.app.context["model"]
        model.may_end = True
        Model.app.answer("GET", "/none")
        self.assertTrue(model.task.cancelled())


class CoroutinesTest(unittest.TestCase):
    def test_without_asyncio_coroutines_are_run_by_hand(self):
        async def one():
            return 1

        async def pieces():
            for _ in range(2):
                yield str(await one())

        class Model:
            def predict(self, value):
                return pieces() if value == "stream" else one()

        with patch.dict(sys.modules):
            del sys.modules["asyncio"]
            truss(Model, __name__)
            Model.app.start()
            with patch.object(_aio, "run", side_effect=AssertionError):
                self.assertEqual(Model.app.answer(json="stream").text, "11")
                self.assertEqual(Model.app.answer(json="value").json, 1)


if __name__ == "__main__":
    unittest.main()
