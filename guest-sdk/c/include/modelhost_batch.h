/* Requests served together, in C: an application that gets several by one call, as many as have come, and at
 * most as the endpoint says, `batching.max_requests`.
 *
 *     static const mh_error *predict(mh_member *members, size_t count) {
 *         for (mh_member *member = members; member < members + count; member++) {
 *             member->error = read(member->sample, …);
 *         }
 *         …
 *     }
 *
 * MH_BATCH makes it a route (modelhost_router.h), MH_RESPOND_ALL the component's export beside MH_RESPOND. In
 * a test it is a function as any other, of members that the test makes.
 */
#ifndef MODELHOST_BATCH_H
#define MODELHOST_BATCH_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One request of a batch, and the answer to it. */
typedef struct {
    mh_sample sample;
    const mh_context *context;
    /* The status is 200 unless set. A member of which nothing is set, and no error, is an error: it was not
     * answered. An empty answer is another status, or a response as a whole. */
    mh_response response;
    /* In place of the response: the error of this request, and of no other. */
    const mh_error *error;
} mh_member;

/* Answers all requests of a batch, which have the same path, in the order in which they came. An error that
 * it returns is that of all of them. */
typedef const mh_error *mh_batch_function(mh_member *members, size_t count);

struct mh_raw_member;
void *mh_run_batch(mh_batch_function *function, const struct mh_raw_member *members, size_t count);
void *mh_tell_paths(const char *const *paths, size_t count);

/* Makes a function serve together what is posted to these paths, which have no parameters: beside
 * MH_RESPOND. */
#define MH_RESPOND_ALL(function, ...)                                                                       \
    static const char *const mh_batch_paths[] = {__VA_ARGS__};                                              \
    MH_BATCH_EXPORTS(function, mh_tell_paths(mh_batch_paths, sizeof(mh_batch_paths) / sizeof(const char *)))

#define MH_BATCH_EXPORTS(function, told)                                                                    \
    MH_C MH_EXPORT(MH_PREFIX "respond-all@0.1.0#paths") void *mh_paths(void);                               \
    void *mh_paths(void) { return told; }                                                                   \
    MH_POST_RETURN(mh_paths, "respond-all@0.1.0#paths")                                                     \
    MH_C MH_EXPORT(MH_PREFIX "respond-all@0.1.0#respond-all") void *mh_respond_all(                         \
        const struct mh_raw_member *members, size_t count);                                                 \
    void *mh_respond_all(const struct mh_raw_member *members, size_t count) {                               \
        return mh_run_batch(function, members, count);                                                      \
    }                                                                                                       \
    MH_POST_RETURN(mh_respond_all, "respond-all@0.1.0#respond-all")

#ifdef __cplusplus
}
#endif

#endif
