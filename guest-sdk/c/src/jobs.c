/* Jobs. A handler that asks for none links none of it. */
#include <string.h>

#include "jobs_host.h"

const char *mh_job_state_name(mh_job_state state) {
    static const char *const names[] = {"queued", "running", "completed", "failed", "cancelled"};
    return state <= MH_JOB_CANCELLED ? names[state] : "unknown";
}

static const mh_error *told(mh_store_error error) {
    if (error.kind == MH_JOBS_CONFLICT) return mh_because(MH_REASON_CONFLICT, "the idempotency key was used for another job");
    int len = (int)error.text.len;
    const char *text = error.text.data;
    switch (error.kind) {
        case MH_JOBS_INVALID: return mh_because(MH_REASON_INVALID, "%.*s", len, text);
        case MH_JOBS_LIMIT: return mh_because(MH_REASON_LIMIT, "%.*s", len, text);
        default: return mh_because(MH_REASON_UNAVAILABLE, "the store of the jobs cannot be used: %.*s", len, text);
    }
}

static mh_job job_of(const mh_host_job *job) {
    return (mh_job){
        .id = job->id,
        .state = job->state,
        .attempt = job->attempt,
        .attempts = job->attempts,
        .submitted_ms = job->submitted_ms,
        .changed_ms = job->changed_ms,
        .error = job->error.has ? job->error.text : mh_text(""),
        .status = job->status.has ? job->status.code : 0,
    };
}

static mh_optional_text optional(mh_str text) { return (mh_optional_text){text.data != NULL, text}; }

static mh_optional_time time_of(uint64_t ms) { return (mh_optional_time){ms != 0, ms}; }

static bool are_texts(const mh_submission *asked) {
    bool all = mh_is_text(asked->path) && mh_is_text(asked->content_type) && mh_is_text(asked->webhook) &&
               mh_is_text(asked->idempotency_key);
    for (size_t at = 0; at < asked->headers.len; at++) {
        all = all && mh_is_text(asked->headers.items[at].name) && mh_is_text(asked->headers.items[at].value);
    }
    return all;
}

const mh_error *mh_job_submit(const mh_submission *submission, mh_job *job) {
    if (!are_texts(submission)) return mh_because(MH_REASON_INVALID, "a submission with a text that is no UTF-8");
    mh_headers headers = submission->headers;
    if (submission->content_type.len > 0) {
        headers.items = mh_alloc((headers.len + 1) * sizeof *headers.items);
        if (headers.len > 0) memcpy(headers.items, submission->headers.items, headers.len * sizeof *headers.items);
        headers.items[headers.len++] = (mh_header){mh_text("content-type"), submission->content_type};
    }
    mh_host_submission given = {
        .path = submission->path.len > 0 ? submission->path : mh_text("/"),
        .headers = headers,
        .body = submission->body,
        .priority = {submission->priority != MH_PRIORITY_NORMAL,
                     submission->priority == MH_PRIORITY_FIRST ? 0 : submission->priority},
        .delay = time_of(submission->delay_ms),
        .wait = time_of(submission->wait_ms),
        .attempts = {submission->attempts != 0, submission->attempts},
        .webhook = optional(submission->webhook),
        .idempotency_key = optional(submission->idempotency_key),
    };
    mh_job_result result;
    mh_host_job_submit(&given, &result);
    if (result.is_error) return told(result.as.error);
    *job = job_of(&result.as.job);
    return NULL;
}

/* A text that is no UTF-8 is the id of no job. */
#define NONE_IF_NO_ID(id, made)       \
    if (!mh_is_text(id)) {            \
        memset(made, 0, sizeof *made); \
        return NULL;                  \
    }

static const mh_error *found(const mh_found_job_result *result, mh_job *job) {
    if (result->is_error) return told(result->as.error);
    *job = result->as.found.has ? job_of(&result->as.found.job) : (mh_job){0};
    return NULL;
}

const mh_error *mh_job_get(mh_str id, mh_job *job) {
    NONE_IF_NO_ID(id, job)
    mh_found_job_result result;
    mh_host_job_get(id.data, id.len, &result);
    return found(&result, job);
}

const mh_error *mh_job_cancel(mh_str id, mh_job *job) {
    NONE_IF_NO_ID(id, job)
    mh_found_job_result result;
    mh_host_job_cancel(id.data, id.len, &result);
    return found(&result, job);
}

const mh_error *mh_job_answer(mh_str id, mh_response *answer) {
    NONE_IF_NO_ID(id, answer)
    mh_answer_result result;
    mh_host_job_answer(id.data, id.len, &result);
    if (result.is_error) return told(result.as.error);
    *answer = (mh_response){0};
    if (!result.as.found.has) return NULL;
    answer->status = result.as.found.answer.status;
    answer->body = result.as.found.answer.body;
    /* A response has its content type apart from its headers. */
    mh_headers all = result.as.found.answer.headers;
    answer->headers.items = all.items;
    for (size_t at = 0; at < all.len; at++) {
        if (mh_equal(all.items[at].name, mh_text("content-type"))) {
            answer->content_type = all.items[at].value;
        } else {
            answer->headers.items[answer->headers.len++] = all.items[at];
        }
    }
    return NULL;
}
