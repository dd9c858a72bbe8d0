/* What the host's jobs do, in memory, for tests; but none is run. */
#ifndef __wasm__
#include "in_tests.h"
#include "jobs_host.h"

typedef struct stored {
    struct stored *next;
    mh_host_job job;
    mh_submission submission;
    /* Its status is 0 before there is one. */
    mh_response answer;
} stored;

static mh_piece *pieces;
static stored *first, **end = &first;
static size_t count;

void mh_jobs_forget(void) {
    first = NULL;
    end = &first;
    count = 0;
    mh_free_stored(&pieces);
}

static stored *found(mh_str id) {
    stored *each = first;
    while (each != NULL && !mh_equal(each->job.id, id)) each = each->next;
    return each;
}

size_t mh_jobs_submitted(void) { return count; }

const mh_submission *mh_job_submission(size_t at) {
    const stored *each = first;
    while (each != NULL && at-- > 0) each = each->next;
    return each == NULL ? NULL : &each->submission;
}

static mh_headers kept(mh_headers headers) {
    mh_headers copy = {mh_stored(&pieces, headers.len * sizeof *headers.items), headers.len};
    for (size_t at = 0; at < headers.len; at++) {
        copy.items[at].name = mh_stored_text(&pieces, headers.items[at].name);
        copy.items[at].value = mh_stored_text(&pieces, headers.items[at].value);
    }
    return copy;
}

void mh_job_finish(mh_str id, mh_response answer) {
    stored *one = found(id);
    if (one == NULL) abort();
    one->answer = (mh_response){
        .status = answer.status == 0 ? 200 : answer.status,
        .content_type = mh_stored_text(&pieces, answer.content_type),
        .headers = kept(answer.headers),
        .body = mh_stored_bytes(&pieces, answer.body),
    };
    one->job.state = one->answer.status < 400 ? MH_JOB_COMPLETED : MH_JOB_FAILED;
    one->job.attempt = 1;
    one->job.changed_ms = mh_now();
    one->job.status.has = true;
    one->job.status.code = one->answer.status;
}

static mh_str kept_option(mh_optional_text text) {
    return text.has ? mh_stored_text(&pieces, text.text) : (mh_str){NULL, 0};
}

static stored *added(const mh_host_submission *given) {
    stored *one = mh_stored(&pieces, sizeof *one);
    uint64_t now = mh_now();
    one->job = (mh_host_job){
        .id = mh_stored_text(&pieces, mh_format("00000000-0000-7000-8000-%012zu", ++count)),
        .state = MH_JOB_QUEUED,
        .attempts = given->attempts.has ? given->attempts.count : 3,
        .submitted_ms = now,
        .changed_ms = now,
    };
    one->submission = (mh_submission){
        .path = mh_stored_text(&pieces, given->path),
        .headers = kept(given->headers),
        .body = mh_stored_bytes(&pieces, given->body),
        .priority = !given->priority.has            ? MH_PRIORITY_NORMAL
                    : given->priority.value == 0    ? MH_PRIORITY_FIRST
                                                    : given->priority.value,
        .delay_ms = given->delay.has ? given->delay.ms : 0,
        .wait_ms = given->wait.has ? given->wait.ms : 0,
        .attempts = given->attempts.has ? given->attempts.count : 0,
        .webhook = kept_option(given->webhook),
        .idempotency_key = kept_option(given->idempotency_key),
    };
    for (size_t at = 0; at < one->submission.headers.len; at++) {
        const mh_header *header = &one->submission.headers.items[at];
        if (mh_equal(header->name, mh_text("content-type"))) one->submission.content_type = header->value;
    }
    *end = one;
    end = &one->next;
    return one;
}

void mh_host_job_submit(const mh_host_submission *given, mh_job_result *result) {
    *result = (mh_job_result){.is_error = 1};
    if (given->path.data[0] != '/') {
        result->as.error = (mh_store_error){MH_JOBS_INVALID, mh_text("the path is none: it begins with `/`")};
        return;
    }
    stored *known = given->idempotency_key.has ? first : NULL;
    while (known != NULL && !mh_equal(known->submission.idempotency_key, given->idempotency_key.text)) known = known->next;
    if (known != NULL && !(mh_equal(known->submission.path, given->path) &&
                           mh_equal(mh_text_of(known->submission.body), mh_text_of(given->body)))) {
        result->as.error.kind = MH_JOBS_CONFLICT;
        return;
    }
    *result = (mh_job_result){.as.job = known != NULL ? known->job : added(given)->job};
}

void mh_host_job_get(const char *id, size_t len, mh_found_job_result *result) {
    const stored *one = found((mh_str){id, len});
    *result = (mh_found_job_result){.as.found.has = one != NULL};
    if (one != NULL) result->as.found.job = one->job;
}

void mh_host_job_cancel(const char *id, size_t len, mh_found_job_result *result) {
    stored *one = found((mh_str){id, len});
    if (one != NULL && one->job.state <= MH_JOB_RUNNING) {
        one->job.state = MH_JOB_CANCELLED;
        one->job.changed_ms = mh_now();
    }
    mh_host_job_get(id, len, result);
}

void mh_host_job_answer(const char *id, size_t len, mh_answer_result *result) {
    const stored *one = found((mh_str){id, len});
    *result = (mh_answer_result){0};
    if (one == NULL || one->answer.status == 0) return;
    mh_headers own = one->answer.headers;
    mh_headers headers = {mh_alloc((own.len + 1) * sizeof *own.items), own.len + 1};
    headers.items[0] = (mh_header){mh_text("content-type"), one->answer.content_type};
    if (own.len > 0) memcpy(headers.items + 1, own.items, own.len * sizeof *own.items);
    result->as.found.has = true;
    result->as.found.answer = (mh_host_answer){one->answer.status, headers, one->answer.body};
}
#endif
