/* Requests to other servers, in C: to what the endpoint's `allow_outbound` lists, and to nothing else. By
 * the library `outbound`, a component of its own, which `modelhost build` puts into the handler's, `[build]`
 * with `with = ["outbound"]` in modelhost.toml.
 *
 *     mh_outbound_request asked = {.url = mh_text("https://labels.example.com/v1")};
 *     mh_outbound_response answer;
 *     mh_bytes labels;
 *     const mh_error *error = mh_outbound_send(&asked, &answer);
 *     if (error == NULL) error = mh_outbound_read_whole(&answer, &labels);
 *
 * Nothing has to be freed: what functions give lasts until the call is over, but for a piece of a body.
 * What they are given stays the caller's. A body that is not read to its end is closed with the call;
 * mh_outbound_close() does so before. mh_reason_of() tells why a function has failed. In a test, which has
 * no library, mh_outbound_answer_with() says what others answer.
 */
#ifndef MODELHOST_OUTBOUND_H
#define MODELHOST_OUTBOUND_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A request that is to be sent: all that is not set is 0. */
typedef struct {
    /* In capitals; empty for GET. */
    mh_str method;
    /* With scheme and host. */
    mh_str url;
    mh_str content_type;
    /* Further ones. */
    mh_headers headers;
    mh_bytes body;
    /* Most milliseconds to the head of the response, and between two pieces of its body; 0 for 30 s. The host
     * waits 60 s at most, and 10 s to connect. */
    uint32_t timeout_ms;
} mh_outbound_request;

typedef struct {
    uint16_t status;
    /* Names in lower case; values that are no text are left out. */
    mh_headers headers;
    /* NULL: it is at its end, or closed. */
    struct mh_opened *body;
    /* Of the body. */
    uint64_t number;
} mh_outbound_response;

/* Sends a request and waits for the head of the response, of any status. No redirect is followed. */
const mh_error *mh_outbound_send(const mh_outbound_request *request, mh_outbound_response *response);
/* The first header of this name, if there is one. Names match in any case. */
bool mh_outbound_header(const mh_outbound_response *response, const char *name, mh_str *value);

/* The next piece of the body, which lasts until the next one is read, or the body is closed. Its `data` is
 * NULL at the end, where the body closes itself, and never else. Of a response that was kept beyond its call
 * it is MH_REASON_FAILED. */
const mh_error *mh_outbound_read(mh_outbound_response *response, mh_bytes *piece);
/* The rest of the body, which is closed then; MH_REASON_TOO_LONG if it has more than 16 MiB. */
const mh_error *mh_outbound_read_whole(mh_outbound_response *response, mh_bytes *content);
/* Reads no more; may be called again. */
void mh_outbound_close(mh_outbound_response *response);

/* A `POST` of JSON to one receiver: all that is not set is 0. With a secret it is signed as Standard
 * Webhooks says (https://www.standardwebhooks.com). */
typedef struct {
    mh_str url;
    /* Such as mh_json_response(&writer).body. */
    mh_bytes json;
    /* `whsec_` and base64, or any other text, whose bytes are the secret then; none, whose `data` is NULL, for
     * no signature. An empty text, mh_text(""), is MH_REASON_INVALID: its signature could be forged.
     * Give it as a granted variable, for getenv(). */
    mh_str secret;
    /* The most attempts; 0 is 1. The next one follows if there was no response, or 408, 429 or a 5xx. */
    uint32_t attempts;
    /* Between the first two attempts; 0 for 1 s. Each pause is twice the one before, a fifth more or less by
     * chance; seconds that the receiver says in `retry-after` win. None is longer than a minute. */
    uint32_t pause_ms;
    /* Of an attempt, as for a request. */
    uint32_t timeout_ms;
} mh_webhook;

/* Sends a webhook; the response is a 2xx, or the error has MH_REASON_STATUS. */
const mh_error *mh_webhook_send(const mh_webhook *webhook, mh_outbound_response *response);

/* For tests: what others answer; the status is 200 unless set. The function is given requests as they would
 * go out, with names of headers in lower case and of forms that can be sent; a webhook is one POST, unsigned,
 * of any number of attempts. */
typedef const mh_error *mh_outbound_function(const mh_outbound_request *request, mh_response *response);
void mh_outbound_answer_with(mh_outbound_function *answer);
/* For tests: an error that a request may have. The text is for MH_REASON_INVALID and MH_REASON_FAILED. */
const mh_error *mh_outbound_error(mh_reason reason, mh_str text);

#ifdef __cplusplus
}
#endif

#endif
