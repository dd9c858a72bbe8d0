/* The contract's functions as the component model has them in a module. Its records and lists lie in memory as the
 * structs of modelhost.h do, which is asserted here, so that nothing is copied. */
#include <stdio.h>
#include <string.h>

#include "socket_host.h"

#ifdef __wasm__
_Static_assert(sizeof(mh_tensor) == 28 && offsetof(mh_tensor, data) == 20, "the contract's `tensor`");
_Static_assert(sizeof(mh_response) == 28 && offsetof(mh_response, headers) == 12, "the contract's `response`");
_Static_assert(sizeof(mh_error) == 32 && offsetof(mh_error, as) == 4, "the contract's `error`");
_Static_assert(sizeof(mh_tensor_spec) == 20 && offsetof(mh_tensor_spec, shape) == 12, "`tensor-spec`");
#define IMPORT(name) \
    __attribute__((import_module("modelhost:handler/types@0.1.0"), import_name("[method]context." name)))

__attribute__((import_module("modelhost:handler/types@0.1.0"), import_name("[resource-drop]context"))) void
mh_host_drop(int32_t context);
#else
#define IMPORT(name)
static void mh_host_drop(int32_t context) { (void)context; }
#endif

IMPORT("request-id") void mh_host_request_id(int32_t context, mh_str *text);
IMPORT("method") void mh_host_method(int32_t context, mh_str *text);
IMPORT("path") void mh_host_path(int32_t context, mh_str *text);
IMPORT("query") void mh_host_query(int32_t context, mh_str *text);
IMPORT("metadata") void mh_host_metadata(int32_t context, mh_str *text);
IMPORT("parameters") void mh_host_parameters(int32_t context, mh_str *text);
IMPORT("header") void mh_host_header(int32_t context, const char *name, size_t len, mh_optional_text *value);
IMPORT("sample") void mh_host_sample(int32_t context, mh_sample *sample);
IMPORT("signature") void mh_host_signature(int32_t context, mh_signature *signature);

#ifdef __wasm__
/* Only a handler that prints is linked with `stdout`. */
extern FILE *const stdout __attribute__((weak));

/* The host's log is no terminal, for which the C library would keep all lines but the first. */
__attribute__((constructor)) static void print_by_line(void) {
    if (&stdout != NULL) setvbuf(stdout, NULL, _IOLBF, 0);
}

/* The end of a line that has none would be in another request's log. */
static void flush(void) {
    if (&stdout != NULL) fflush(stdout);
}
#else
static void flush(void) {}
#endif

void mh_context_over(const mh_context *context) {
    flush();
    mh_host_drop(context->handle);
    mh_close_opened();
}

#define TEXT(name)                                    \
    mh_str mh_##name(const mh_context *context) {     \
        mh_str text;                                  \
        mh_host_##name(context->handle, &text);       \
        return text;                                  \
    }
TEXT(request_id)
TEXT(method)
TEXT(path)
TEXT(query)
TEXT(metadata)
TEXT(parameters)

bool mh_request_header(const mh_context *context, const char *name, mh_str *value) {
    mh_optional_text found;
    mh_host_header(context->handle, name, strlen(name), &found);
    if (found.has) *value = found.text;
    return found.has;
}

mh_sample mh_request_sample(const mh_context *context) {
    mh_sample sample;
    mh_host_sample(context->handle, &sample);
    return sample;
}

mh_signature mh_model_signature(const mh_context *context) {
    mh_signature signature;
    mh_host_signature(context->handle, &signature);
    return signature;
}

/* The result of a call, which the host reads before it ends the call. */
typedef struct {
    uint8_t is_error;
    union {
        mh_tensors tensors;
        mh_response response;
        mh_error error;
        mh_str text;
    } as;
} call_result;

static call_result result;

static void *failed(const mh_error *error) {
    result.is_error = 1;
    result.as.error = *error;
    return &result;
}

void *mh_run_init(mh_init_function *function, const char *data, size_t len) {
    const mh_error *error = function((mh_str){data, len});
    mh_inits++;
    flush();
    mh_close_opened();
    result.is_error = error != NULL;
    if (error != NULL) result.as.text = mh_error_text(error);
    return &result;
}

void *mh_run_pre(mh_pre_function *function, const mh_sample *sample, int32_t handle) {
    mh_context context = {.handle = handle};
    mh_tensors inputs = {0};
    mh_called_with = &context;
    const mh_error *error = function(sample, &context, &inputs);
    mh_called_with = NULL;
    mh_context_over(&context);
    if (error != NULL) return failed(error);
    result.is_error = 0;
    result.as.tensors = inputs;
    return &result;
}

void *mh_run_tensors(mh_tensors_function *function, mh_tensors given, int32_t handle) {
    mh_context context = {.handle = handle};
    mh_tensors made = {0};
    const mh_error *error = function(given, &context, &made);
    mh_context_over(&context);
    if (error != NULL) return failed(error);
    result.is_error = 0;
    result.as.tensors = made;
    return &result;
}

void *mh_run_post(mh_post_function *function, mh_tensors given, int32_t handle) {
    mh_context context = {.handle = handle};
    mh_response response = {.status = 200};
    const mh_error *error = function(given, &context, &response);
    mh_context_over(&context);
    if (error != NULL) return failed(error);
    result.is_error = 0;
    result.as.response = response;
    return &result;
}

void *mh_run_websocket(mh_websocket_function *function, int32_t upgrade, int32_t handle) {
    mh_context context = {.handle = handle};
    const mh_error *error = mh_talk(function, upgrade, &context);
    mh_context_over(&context);
    result.is_error = error != NULL;
    if (error != NULL) result.as.text = mh_error_text(error);
    return &result;
}

/* The contract's `input`. */
typedef struct {
    mh_str name;
    mh_datatype datatype;
    struct {
        const int64_t *data;
        size_t len;
    } shape;
    uint8_t required;
    mh_optional_text example;
    mh_str description;
} declared_input;

#ifdef __wasm__
_Static_assert(sizeof(declared_input) == 44 && offsetof(declared_input, example) == 24, "`input`");
#endif

void *mh_declare(const mh_input *inputs, size_t count) {
    static struct {
        declared_input *items;
        size_t len;
    } declared;
    declared.items = mh_alloc(count * sizeof *declared.items);
    declared.len = count;
    for (size_t at = 0; at < count; at++) {
        const mh_input *input = &inputs[at];
        const char *example = input->example, *description = input->description;
        declared.items[at] = (declared_input){
            .name = mh_text(input->name),
            .datatype = input->datatype,
            .shape = {input->shape, input->rank},
            .required = !input->optional,
            .example = {example != NULL, mh_text(example != NULL ? example : "")},
            .description = mh_text(description != NULL ? description : ""),
        };
    }
    return &declared;
}
