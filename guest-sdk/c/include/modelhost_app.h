/* Applications in C: handlers that answer requests by themselves, at once, in pieces, or before they go on working.
 *
 * A function answers each request to the endpoint's path, of any method, and to all paths below it; mh_path() is the path
 * below the endpoint's, at least `/`. MH_RESPOND makes it the component's export. */
#ifndef MODELHOST_APP_H
#define MODELHOST_APP_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The response of one request, in pieces. */
typedef struct mh_output mh_output;

/* Answers with `response`, whose status is 200 unless set; or by the output, and then `response` is not looked at. A
 * response that has begun ends properly when the function returns NULL; with an error it breaks off. */
typedef const mh_error *mh_respond_function(
    const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response);

/* Sends the head, once, and the body of `head` as the first piece. */
const mh_error *mh_begin(mh_output *output, mh_response head);
/* Sends a piece, and waits while the client does not read. Without mh_begin() before it, the head is that of bytes with
 * status 200. False: there is no client any more, or the response has ended, and what follows is for nothing. */
bool mh_write(mh_output *output, mh_bytes piece);
/* Sends what a writer has written as a server-sent event, and empties the writer, whose memory serves again. Without
 * mh_begin() before it, the head is that of events. */
bool mh_event(mh_output *output, mh_json_writer *event);
/* Sends a whole response and ends it, so that the function may work on, for as long as the endpoint's
 * `background_timeout`. */
const mh_error *mh_send(mh_output *output, mh_response response);

void *mh_run_respond(mh_respond_function *function, const mh_sample *sample, int32_t context, int32_t output);

#define MH_RESPOND(function)                                                                                \
    MH_C MH_EXPORT(MH_PREFIX "respond@0.1.0#respond") void *mh_respond_export(const char *type,             \
        size_t type_len, const uint8_t *body, size_t body_len, int32_t context, int32_t output);            \
    void *mh_respond_export(const char *type, size_t type_len, const uint8_t *body, size_t body_len,        \
        int32_t context, int32_t output) {                                                                  \
        mh_sample sample = {{type, type_len}, {body, body_len}};                                            \
        return mh_run_respond(function, &sample, context, output);                                          \
    }                                                                                                       \
    MH_POST_RETURN(mh_respond_export, "respond@0.1.0#respond")

#ifdef __cplusplus
}
#endif

#endif
