"""Jobs without a host."""

import unittest

from modelhost_guest import App, JobError, jobs

app = App("tests")


@app.handler("/train")
def train(request):
    key = request.json["dataset"]
    return {"job": jobs.submit("/work?fast=1", json=request.json, idempotency_key=key, delay=1.5).id}


@app.handler("/state")
def state(request):
    answer = jobs.get_answer(request.json)
    return [jobs.get(request.json).state, answer and answer.json]


class JobsTest(unittest.TestCase):
    def setUp(self):
        jobs.forget()

    def fails(self, kind, text, function, *arguments, **named):
        with self.assertRaisesRegex(JobError, text) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.kind, kind)

    def test_an_application_submits_and_looks(self):
        ids = [app.answer(path="/train", json={"dataset": name}).json["job"] for name in "aba"]
        self.assertEqual((ids[0], len(set(ids))), (ids[2], 2))
        first = jobs.submitted()[0]
        self.assertEqual((first.path, first.body, first.delay), ("/work?fast=1", b'{"dataset":"a"}', 1500))
        self.assertEqual(first.headers, {"content-type": "application/json"})
        self.assertEqual(app.answer(path="/state", json=ids[0]).json, ["queued", None])
        jobs.finish(ids[0], json={"loss": 0.5})
        self.assertEqual(app.answer(path="/state", json=ids[0]).json, ["completed", {"loss": 0.5}])
        jobs.finish(ids[1], status=400)
        self.assertEqual((jobs.get(ids[1]).state, jobs.get(ids[1]).status), ("failed", 400))

    def test_jobs_are_cancelled(self):
        job = jobs.submit(body="grüß", headers={"X-Mine": "1"})
        self.assertEqual(jobs.submitted()[0].headers, {"x-mine": "1", "content-type": "text/plain; charset=utf-8"})
        self.assertEqual((jobs.cancel(job.id).state, jobs.get(job.id).state), ("cancelled", "cancelled"))
        self.assertEqual((jobs.get("none"), jobs.get_answer("none"), jobs.cancel("none")), (None, None, None))
        self.assertEqual(jobs.submit(body=b"\xff", headers={"Content-Type": "x/y"}).state, "queued")
        self.assertEqual(jobs.submitted()[1].headers, {"content-type": "x/y"})

    def test_what_cannot_be_used_is_said(self):
        jobs.submit(json=1, idempotency_key="k")
        self.fails("conflict", "was used for another job", jobs.submit, json=2, idempotency_key="k")
        self.fails("invalid", "the path is none", jobs.submit, "work")
        self.fails("invalid", "the priority is not", jobs.submit, priority=-1)
        for wrong in (-1, float("nan"), float("inf")):
            self.fails("invalid", "a time of", jobs.submit, delay=wrong)
        job = jobs.submit()
        jobs.finish(job.id)
        self.assertIsNone(jobs.get_answer(job.id).json)
        with self.assertRaisesRegex(TypeError, "`json=` takes others"):
            jobs.submit(body=1)


if __name__ == "__main__":
    unittest.main()
