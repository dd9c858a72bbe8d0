/* The contract's `respond-all`. A handler that exports none links none of it. */
#include "modelhost_batch.h"

#include "internal.h"

/* The contract's `member`. */
struct mh_raw_member {
    mh_sample sample;
    int32_t context;
};

/* The answer to one request. */
typedef struct {
    uint8_t is_error;
    union {
        mh_response response;
        mh_error error;
    } as;
} member_result;

/* The result of a call, which the host reads before it ends the call. */
static struct {
    uint8_t is_error;
    union {
        struct {
            const member_result *items;
            size_t len;
        } answers;
        mh_error error;
    } as;
} result;

#ifdef __wasm__
_Static_assert(sizeof(struct mh_raw_member) == 20 && sizeof(member_result) == 36, "the contract's `member`");
_Static_assert(sizeof(result) == 36 && offsetof(member_result, as) == 4, "what `respond-all` returns");
#endif

/* Where the body of a response lies that is not set: an empty one that is set is an answer. */
static const uint8_t nowhere = 0;

mh_response mh_unanswered(void) { return (mh_response){.status = 200, .body = {&nowhere, 0}}; }

const mh_error *mh_member_error(const mh_error *error, const mh_response *response) {
    bool is_set = response->status != 200 || response->content_type.len > 0 || response->headers.len > 0 ||
                  response->body.data != &nowhere;
    return error != NULL || is_set ? error : mh_internal("the function has not answered this request");
}

void *mh_run_batch(mh_batch_function *function, const struct mh_raw_member *given, size_t count) {
    mh_context *contexts = mh_alloc(count * sizeof *contexts);
    mh_member *members = mh_alloc(count * sizeof *members);
    for (size_t at = 0; at < count; at++) {
        contexts[at] = (mh_context){.handle = given[at].context};
        members[at] = (mh_member){
            .sample = given[at].sample, .context = &contexts[at], .response = mh_unanswered()};
    }
    const mh_error *error = function(members, count);
    for (size_t at = 0; at < count; at++) mh_context_over(&contexts[at]);
    result.is_error = error != NULL;
    if (error != NULL) {
        result.as.error = *error;
        return &result;
    }
    member_result *answers = mh_alloc(count * sizeof *answers);
    for (size_t at = 0; at < count; at++) {
        error = mh_member_error(members[at].error, &members[at].response);
        answers[at].is_error = error != NULL;
        if (error != NULL) {
            answers[at].as.error = *error;
        } else {
            answers[at].as.response = members[at].response;
        }
    }
    result.as.answers.items = answers;
    result.as.answers.len = count;
    return &result;
}

static struct {
    mh_str *items;
    size_t len;
} told;

void *mh_tell_paths(const char *const *paths, size_t count) {
    told.items = mh_alloc(count * sizeof *told.items);
    told.len = count;
    for (size_t at = 0; at < count; at++) told.items[at] = mh_text(paths[at]);
    return &told;
}
