/* The contract's `respond` and `streaming`. A handler that exports no MH_RESPOND links none of it. */
#include "modelhost_app.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

#ifdef __wasm__
#define IMPORT(name) __attribute__((import_module("modelhost:handler/streaming@0.1.0"), import_name(name)))
#else
#define IMPORT(name)
#endif

typedef struct {
    uint8_t is_error;
    mh_str text;
} outcome;

IMPORT("[resource-drop]output") void mh_host_output_drop(int32_t output);
IMPORT("[method]output.begin") void mh_host_output_begin(int32_t output, int32_t status, const char *type, size_t type_len,
    const mh_header *headers, size_t headers_len, outcome *outcome);
IMPORT("[method]output.write") int32_t mh_host_output_write(int32_t output, const uint8_t *piece, size_t len);
IMPORT("[static]output.finish") void mh_host_output_finish(int32_t output);
IMPORT("[static]output.send") void mh_host_output_send(int32_t output, int32_t status, const char *type, size_t type_len,
    const mh_header *headers, size_t headers_len, const uint8_t *body, size_t body_len, outcome *outcome);

struct mh_output {
    int32_t handle;
    enum { UNTOUCHED, BEGUN, ENDED } state;
};

static const mh_error *told(outcome outcome) {
    return outcome.is_error ? mh_internal("%.*s", (int)outcome.text.len, outcome.text.data) : NULL;
}

const mh_error *mh_begin(mh_output *output, mh_response head) {
    if (output->state != UNTOUCHED) return mh_internal("the response has begun already");
    outcome outcome;
    mh_host_output_begin(output->handle, head.status == 0 ? 200 : head.status, head.content_type.data,
        head.content_type.len, head.headers.items, head.headers.len, &outcome);
    const mh_error *error = told(outcome);
    if (error != NULL) return error;
    output->state = BEGUN;
    if (head.body.len > 0) mh_write(output, head.body);
    return NULL;
}

static bool begun_as(mh_output *output, const char *type) {
    return output->state == BEGUN || mh_begin(output, (mh_response){.content_type = mh_text(type)}) == NULL;
}

bool mh_write(mh_output *output, mh_bytes piece) {
    return begun_as(output, "application/octet-stream") && mh_host_output_write(output->handle, piece.data, piece.len) != 0;
}

bool mh_event(mh_output *output, mh_json_writer *event) {
    static const char before[] = "data: ", after[] = "\n\n";
    enum { BEFORE = sizeof before - 1, AFTER = sizeof after - 1 };
    /* Memory of a call lasts until it is over, which would fill it in a long stream. */
    static uint8_t *frame;
    static size_t room;
    size_t len = BEFORE + event->len + AFTER;
    if (room < len) {
        room = 2 * len;
        frame = realloc(frame, room);
        if (frame == NULL) abort();
    }
    memcpy(frame, before, BEFORE);
    if (event->len > 0) memcpy(frame + BEFORE, event->data, event->len);
    memcpy(frame + BEFORE + event->len, after, AFTER);
    event->len = 0;
    event->comma = false;
    mh_bytes piece = {frame, len};
    return begun_as(output, "text/event-stream") && mh_write(output, piece);
}

const mh_error *mh_send(mh_output *output, mh_response response) {
    if (output->state != UNTOUCHED) return mh_internal("the response has begun already");
    output->state = ENDED;
    outcome outcome;
    mh_host_output_send(output->handle, response.status == 0 ? 200 : response.status, response.content_type.data,
        response.content_type.len, response.headers.items, response.headers.len, response.body.data, response.body.len, &outcome);
    return told(outcome);
}

/* The result of a call, which the host reads before it ends the call. */
static struct {
    uint8_t is_error;
    union {
        struct {
            uint8_t has;
            mh_response response;
        } answer;
        mh_error error;
    } as;
} result;

#ifdef __wasm__
_Static_assert(sizeof(result) == 36 && sizeof(result.as.answer) == 32, "what `respond` returns");
#endif

void *mh_run_respond(mh_respond_function *function, const mh_sample *sample, int32_t context_handle, int32_t handle) {
    mh_context context = {.handle = context_handle};
    mh_output output = {handle, UNTOUCHED};
    mh_response response = {.status = 200};
    mh_called_with = &context;
    const mh_error *error = function(sample, &context, &output, &response);
    mh_called_with = NULL;
    mh_context_over(&context);
    result.is_error = error != NULL;
    if (error == NULL && output.state == BEGUN) {
        mh_host_output_finish(handle);
    } else if (output.state != ENDED) {
        mh_host_output_drop(handle);
    }
    if (error != NULL) {
        result.as.error = *error;
    } else {
        result.as.answer.has = output.state == UNTOUCHED;
        result.as.answer.response = response;
    }
    return &result;
}
