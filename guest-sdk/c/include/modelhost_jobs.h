/* Jobs of the handler's own endpoint, in C, which has to have some, `jobs = "on"`: requests that are
 * stored, and run later as a `POST`.
 *
 * Nothing has to be freed: what functions give lasts until the call is over. What they are given stays the
 * caller's, and is copied. mh_reason_of() tells why a function has failed. Outside a component, in a test,
 * the jobs are in memory and none is run: mh_job_submission() says what was submitted, mh_job_finish() ends
 * one, mh_jobs_forget() begins anew.
 */
#ifndef MODELHOST_JOBS_H
#define MODELHOST_JOBS_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MH_PRIORITY_NORMAL, MH_PRIORITY_FIRST, MH_PRIORITY_LAST };

/* A job that is to be stored: all that is not set is 0. */
typedef struct {
    /* Below the endpoint's own path, with the query: `/train?fast=1`. Empty for that path itself. */
    mh_str path;
    mh_str content_type;
    /* Further ones. None whose name says that it holds a secret, or that is of a connection. */
    mh_headers headers;
    mh_bytes body;
    uint8_t priority;
    /* Not before this time is over. */
    uint64_t delay_ms;
    /* Fails if its first attempt has not begun after this time; 0 for any. */
    uint64_t wait_ms;
    /* 0 for as many as `limits.job_attempts`. */
    uint32_t attempts;
    /* A URL that gets the result, at a place that `allow_outbound` lists. */
    mh_str webhook;
    /* A second submission with the same key is the same job: for handlers that may run again. */
    mh_str idempotency_key;
} mh_submission;

enum { MH_JOB_QUEUED, MH_JOB_RUNNING, MH_JOB_COMPLETED, MH_JOB_FAILED, MH_JOB_CANCELLED };
typedef uint8_t mh_job_state;

/* A job. Times are milliseconds since 1970. */
typedef struct {
    /* Empty: there is no such job, or not any more. */
    mh_str id;
    mh_job_state state;
    /* Attempts that have begun, and the most that there will be. */
    uint32_t attempt, attempts;
    uint64_t submitted_ms, changed_ms;
    /* Why the last attempt has failed; empty if it has not. */
    mh_str error;
    /* That of the answer, once it is finished with one; else 0. */
    uint16_t status;
} mh_job;

/* `queued`, and so on. */
const char *mh_job_state_name(mh_job_state state);

/* Stores a job, and gives it when it is stored. */
const mh_error *mh_job_submit(const mh_submission *submission, mh_job *job);
/* A job by its id. */
const mh_error *mh_job_get(mh_str id, mh_job *job);
/* The answer to a job; its status is 0 if there is no such job, or it has no answer yet. Names of headers
 * are in lower case. */
const mh_error *mh_job_answer(mh_str id, mh_response *answer);
/* Cancels a job, whose run is stopped; one that is finished stays as it is. Gives the job as it is then. */
const mh_error *mh_job_cancel(mh_str id, mh_job *job);

/* For tests: how many were submitted, and each of them, which lasts until all are forgotten. */
size_t mh_jobs_submitted(void);
const mh_submission *mh_job_submission(size_t at);
/* For tests: a job ends with this answer, and fails if that is an error. */
void mh_job_finish(mh_str id, mh_response answer);
/* For tests: forgets all jobs, and frees their memory. */
void mh_jobs_forget(void);

#ifdef __cplusplus
}
#endif

#endif
