/* The contract's `jobs` as the component model has it in a module. In a test, jobs_in_tests.c defines its
 * functions. */
#ifndef MODELHOST_JOBS_HOST_H
#define MODELHOST_JOBS_HOST_H

#include "internal.h"
#include "modelhost_jobs.h"

#ifdef __wasm__
#define JOBS(name) __attribute__((import_module("modelhost:handler/jobs@0.1.0"), import_name(name)))
#else
#define JOBS(name)
#endif

/* Its errors, in the order of the contract. */
enum { MH_JOBS_INVALID, MH_JOBS_CONFLICT, MH_JOBS_LIMIT, MH_JOBS_UNAVAILABLE };

typedef struct {
    uint8_t has;
    uint64_t ms;
} mh_optional_time;

typedef struct {
    mh_str path;
    mh_headers headers;
    mh_bytes body;
    struct {
        uint8_t has, value;
    } priority;
    mh_optional_time delay, wait;
    struct {
        uint8_t has;
        uint32_t count;
    } attempts;
    mh_optional_text webhook, idempotency_key;
} mh_host_submission;

typedef struct {
    mh_str id;
    mh_job_state state;
    uint32_t attempt, attempts;
    uint64_t submitted_ms, changed_ms;
    mh_optional_text error;
    struct {
        uint8_t has;
        uint16_t code;
    } status;
} mh_host_job;

typedef struct {
    uint16_t status;
    mh_headers headers;
    mh_bytes body;
} mh_host_answer;

/* What `submit` gives, and what `get` and `cancel` give: a job that is there or not. */
typedef struct {
    uint8_t is_error;
    union {
        mh_host_job job;
        mh_store_error error;
    } as;
} mh_job_result;

typedef struct {
    uint8_t is_error;
    union {
        struct {
            uint8_t has;
            mh_host_job job;
        } found;
        mh_store_error error;
    } as;
} mh_found_job_result;

typedef struct {
    uint8_t is_error;
    union {
        struct {
            uint8_t has;
            mh_host_answer answer;
        } found;
        mh_store_error error;
    } as;
} mh_answer_result;

#ifdef __wasm__
_Static_assert(sizeof(mh_host_submission) == 96 && offsetof(mh_host_submission, attempts) == 64, "`submission`");
_Static_assert(sizeof(mh_host_job) == 56 && offsetof(mh_host_job, error) == 40, "the contract's `job`");
_Static_assert(sizeof(mh_job_result) == 64 && sizeof(mh_found_job_result) == 72, "what functions of jobs return");
_Static_assert(sizeof(mh_answer_result) == 28 && offsetof(mh_answer_result, as.found.answer) == 8, "`get-answer`");
#endif

JOBS("submit") void mh_host_job_submit(const mh_host_submission *submission, mh_job_result *result);
JOBS("get") void mh_host_job_get(const char *id, size_t len, mh_found_job_result *result);
JOBS("get-answer") void mh_host_job_answer(const char *id, size_t len, mh_answer_result *result);
JOBS("cancel") void mh_host_job_cancel(const char *id, size_t len, mh_found_job_result *result);

#endif
