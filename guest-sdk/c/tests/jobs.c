/* Unit tests of jobs, which are in memory here. */
#include <string.h>

#include "check.h"
#include "modelhost_jobs.h"

static void a_job_is_stored_as_it_was_meant(void) {
    mh_header header = {mh_text("x-of"), mh_text("7")};
    mh_submission asked = {
        .path = mh_text("/train?fast=1"),
        .content_type = mh_text("application/json"),
        .headers = {&header, 1},
        .body = mh_bytes_of(mh_text("[1]")),
        .priority = MH_PRIORITY_FIRST,
        .delay_ms = 1500,
        .attempts = 2,
        .idempotency_key = mh_text("k"),
    };
    mh_job job, same;
    check(mh_job_submit(&asked, &job) == NULL && job.id.len == 36, "a job");
    check(job.state == MH_JOB_QUEUED && strcmp(mh_job_state_name(job.state), "queued") == 0, "it waits");
    check(job.attempts == 2 && job.status == 0 && job.error.len == 0, "nothing of it yet");
    check(job.submitted_ms > 0 && job.submitted_ms == job.changed_ms, "its times");
    mh_call_over();
    check(mh_jobs_submitted() == 1 && mh_job_submission(1) == NULL, "one was submitted");
    const mh_submission *stored = mh_job_submission(0);
    check(mh_equal(stored->path, mh_text("/train?fast=1")) && mh_equal(mh_text_of(stored->body), mh_text("[1]")), "what it is");
    check(stored->headers.len == 2 && mh_equal(stored->content_type, mh_text("application/json")), "its headers");
    check(stored->priority == MH_PRIORITY_FIRST && stored->delay_ms == 1500 && stored->wait_ms == 0, "when it is run");
    check(stored->webhook.data == NULL && mh_equal(stored->idempotency_key, mh_text("k")), "what it was not given");
    check(mh_job_submit(&asked, &same) == NULL, "the same again");
    check(mh_equal(same.id, mh_text("00000000-0000-7000-8000-000000000001")), "its id");
    asked.body = mh_bytes_of(mh_text("[2]"));
    const mh_error *error = mh_job_submit(&asked, &same);
    check(error != NULL && mh_reason_of(error) == MH_REASON_CONFLICT, "another one");
    check(mh_equal(mh_error_text(error), mh_text("the idempotency key was used for another job")), "its text");
}

static void what_cannot_be_used_is_told(void) {
    mh_job job;
    const mh_error *error = mh_job_submit(&(mh_submission){.path = mh_text("train")}, &job);
    check(error != NULL && mh_reason_of(error) == MH_REASON_INVALID, "a path");
    error = mh_job_submit(&(mh_submission){.path = mh_text("/\xff")}, &job);
    check(error != NULL && mh_reason_of(error) == MH_REASON_INVALID, "no text");
    check(mh_job_get(mh_text("none"), &job) == NULL && job.id.len == 0, "no such job");
    check(mh_job_cancel(mh_text("\xff"), &job) == NULL && job.id.len == 0, "no id");
}

static void a_job_ends(void) {
    mh_jobs_forget();
    mh_job job, other;
    mh_response answer;
    check(mh_job_submit(&(mh_submission){0}, &job) == NULL && mh_equal(mh_job_submission(0)->path, mh_text("/")), "own path");
    check(mh_job_answer(job.id, &answer) == NULL && answer.status == 0, "no answer yet");
    mh_job_finish(job.id, mh_text_response(mh_text("done")));
    check(mh_job_get(job.id, &job) == NULL && job.state == MH_JOB_COMPLETED, "it is over");
    check(job.status == 200 && job.attempt == 1, "its answer's status");
    check(mh_job_answer(job.id, &answer) == NULL && answer.status == 200 && answer.headers.len == 0, "its answer");
    check(mh_equal(answer.content_type, mh_text("text/plain; charset=utf-8")), "what the answer is");
    check(mh_equal(mh_text_of(answer.body), mh_text("done")), "the answer's body");
    check(mh_job_cancel(job.id, &job) == NULL && job.state == MH_JOB_COMPLETED, "what is over is not cancelled");
    check(mh_job_submit(&(mh_submission){0}, &other) == NULL && !mh_equal(other.id, job.id), "another job");
    check(mh_job_cancel(other.id, &other) == NULL && other.state == MH_JOB_CANCELLED, "it is cancelled");
    mh_job_finish(other.id, (mh_response){.status = 500});
    check(mh_job_get(other.id, &other) == NULL && other.state == MH_JOB_FAILED && other.status == 500, "an error");
}

int main(void) {
    a_job_is_stored_as_it_was_meant();
    what_cannot_be_used_is_told();
    a_job_ends();
    mh_call_over();
    mh_jobs_forget();
    return 0;
}
