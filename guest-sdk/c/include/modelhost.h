/* Write handlers for modelhost in C: what happens to a request before the model, and to the model's outputs after it.
 *
 * A handler defines functions and names them to the macros at the end of this file; the component exports those. What
 * functions are given, and what mh_alloc() returns, lasts until the call is over: there is nothing to free. What is to
 * stay, from `init` on, is copied by mh_keep() or malloc().
 */
#ifndef MODELHOST_H
#define MODELHOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Text in UTF-8, without a 0 at its end. */
typedef struct {
    const char *data;
    size_t len;
} mh_str;

typedef struct {
    const uint8_t *data;
    size_t len;
} mh_bytes;

typedef struct {
    const mh_str *items;
    size_t len;
} mh_text_list;

/* Element types of the Open Inference Protocol. */
enum {
    MH_BOOL, MH_UINT8, MH_UINT16, MH_UINT32, MH_UINT64, MH_INT8, MH_INT16, MH_INT32, MH_INT64,
    MH_FP16, MH_BF16, MH_FP32, MH_FP64, MH_BYTES
};
typedef uint8_t mh_datatype;

/* Extents, outermost first; a scalar has none. */
typedef struct {
    const uint64_t *data;
    size_t len;
} mh_shape;

/* A dense tensor. Its data is row-major, little-endian; of BYTES each element has its length in front, 4 bytes. From a
 * handler: the empty name is the model's only input. */
typedef struct {
    mh_str name;
    mh_datatype datatype;
    mh_shape shape;
    mh_bytes data;
} mh_tensor;

typedef struct {
    mh_tensor *items;
    size_t len;
} mh_tensors;

/* A request's body. */
typedef struct {
    mh_str content_type;
    mh_bytes body;
} mh_sample;

typedef struct {
    mh_str name, value;
} mh_header;

typedef struct {
    mh_header *items;
    size_t len;
} mh_headers;

typedef struct {
    uint16_t status;
    mh_str content_type;
    mh_headers headers;
    mh_bytes body;
} mh_response;

/* Why a handler does not go on; made by mh_invalid(), mh_internal() and mh_respond(). */
typedef struct mh_error mh_error;

/* The request being served. What is not asked for is not fetched. */
typedef struct mh_context mh_context;

/* --- Memory and text ------------------------------------------------------------------------------------------- */

/* Memory that lasts until the call is over, aligned for everything. Never NULL: without memory the instance ends. */
void *mh_alloc(size_t size);
/* A copy that stays, for what `init` is given. */
mh_str mh_keep(mh_str text);
mh_str mh_text(const char *text);
bool mh_equal(mh_str a, mh_str b);
/* The same bytes as the other of the two. */
mh_bytes mh_bytes_of(mh_str text);
mh_str mh_text_of(mh_bytes bytes);
/* As printf() does. */
mh_str mh_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- Errors ---------------------------------------------------------------------------------------------------- */

/* The caller sent something unusable: 400 with this text, which the caller reads. */
const mh_error *mh_invalid(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The handler cannot do its job: 500; the text goes to the log. */
const mh_error *mh_internal(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Answers with this response and skips what is left. Any status: a cache hit is a 200. */
const mh_error *mh_respond(mh_response response);
/* The text of an error, for tests. */
mh_str mh_error_text(const mh_error *error);

/* Why the host has not done what modelhost_kv.h, modelhost_jobs.h or modelhost_blobs.h asks for, or a request of
 * modelhost_outbound.h has no response. A function that returns such an error answers with 500, as with those of
 * mh_internal(). */
typedef enum {
    /* Of all other errors. */
    MH_REASON_NONE,
    /* The endpoint grants no bucket of this name. */
    MH_REASON_NO_SUCH_BUCKET,
    /* Something that was given cannot be used. Nothing was changed. */
    MH_REASON_INVALID,
    /* The idempotency key was used for a job with another path, query or body. */
    MH_REASON_CONFLICT,
    /* Beyond a limit of the endpoint. Nothing was changed. */
    MH_REASON_LIMIT,
    /* The store cannot be used now; whether a change was made is not known. */
    MH_REASON_UNAVAILABLE,
    /* `allow_outbound` does not list where a request goes. */
    MH_REASON_DENIED,
    /* The name leads to an address of this machine, of a private network or of a cloud's metadata. */
    MH_REASON_PROHIBITED,
    /* There was no answer in the time of a request. */
    MH_REASON_TIMED_OUT,
    /* The server refused the connection, broke it off or did not speak HTTP. */
    MH_REASON_FAILED,
    /* The body of a response has more than 16 MiB. */
    MH_REASON_TOO_LONG,
    /* The receiver of a webhook answered with another status than a 2xx, which mh_status_of() has. */
    MH_REASON_STATUS
} mh_reason;

mh_reason mh_reason_of(const mh_error *error);
/* The status of MH_REASON_STATUS; 0 of other errors. */
uint16_t mh_status_of(const mh_error *error);

/* --- Tensors --------------------------------------------------------------------------------------------------- */

/* Bytes of an element; 0 of MH_BYTES. */
size_t mh_size_of(mh_datatype datatype);
/* The number of elements of a tensor. */
uint64_t mh_count(const mh_tensor *tensor);
/* A tensor that shares `values`, which have to last until the call is over. */
mh_tensor mh_tensor_of(mh_datatype datatype, const void *values, const uint64_t *shape, size_t rank);
/* A vector of MH_BYTES. */
mh_tensor mh_tensor_of_texts(const mh_str *texts, size_t count);
/* The elements of a tensor; NULL if it has another datatype or its data is of another length. */
const void *mh_values(const mh_tensor *tensor, mh_datatype datatype);
/* The same as MH_FP32. */
const float *mh_floats(const mh_tensor *tensor);
/* The elements of a tensor of MH_BYTES; NULL if it is none. */
const mh_str *mh_texts(const mh_tensor *tensor, size_t *count);
/* One tensor as what a function returns. */
mh_tensors mh_one(mh_tensor tensor);
/* The tensor of this name, or NULL. */
const mh_tensor *mh_named(mh_tensors tensors, const char *name);
/* Where the largest value is; NaN is never the largest. `count` of no values. */
size_t mh_argmax(const float *values, size_t count);
float mh_from_half(uint16_t bits);
uint16_t mh_to_half(float value);
float mh_from_bfloat16(uint16_t bits);
/* To the nearest, ties to even. */
uint16_t mh_to_bfloat16(float value);

/* --- JSON ------------------------------------------------------------------------------------------------------ */

typedef enum { MH_JSON_NULL, MH_JSON_BOOL, MH_JSON_NUMBER, MH_JSON_STRING, MH_JSON_ARRAY, MH_JSON_OBJECT } mh_json_kind;

typedef struct mh_json {
    mh_json_kind kind;
    bool boolean;
    double number;
    /* Of a string what it stands for, of a number its digits. */
    mh_str text;
    /* The name in an object. */
    mh_str name;
    /* Of an array or an object the first element; the next one of the same. */
    struct mh_json *first, *next;
    size_t len;
} mh_json;

/* Reads JSON; what is malformed is the caller's fault. */
const mh_error *mh_json_read(mh_bytes text, const mh_json **value);
/* The value under a name, or NULL. The last one of several. */
const mh_json *mh_json_get(const mh_json *object, const char *name);
/* The numbers under these names in a body, an object; one that is missing, or no number, is the caller's fault. */
const mh_error *mh_numbers(const mh_sample *sample, size_t count, const char *const *names, float *values);

/* Writes JSON: mh_json_writer w = {0}; then in order what the document has. */
typedef struct {
    char *data;
    size_t len, capacity;
    bool comma;
    /* Which call its memory is of. */
    uint32_t age;
} mh_json_writer;

void mh_write_begin(mh_json_writer *writer, char bracket);
void mh_write_end(mh_json_writer *writer, char bracket);
void mh_write_name(mh_json_writer *writer, const char *name);
void mh_write_text(mh_json_writer *writer, mh_str text);
/* NaN and infinities are null. */
void mh_write_number(mh_json_writer *writer, double value);
void mh_write_integer(mh_json_writer *writer, int64_t value);
void mh_write_unsigned(mh_json_writer *writer, uint64_t value);
void mh_write_float(mh_json_writer *writer, float value);
void mh_write_floats(mh_json_writer *writer, const float *values, size_t count);
void mh_write_bool(mh_json_writer *writer, bool value);
void mh_write_null(mh_json_writer *writer);
/* A response with status 200. */
mh_response mh_json_response(const mh_json_writer *writer);
mh_response mh_text_response(mh_str text);
/* Adds a header, or another value of one: two cookies are two of `set-cookie`. */
void mh_add_header(mh_response *response, mh_str name, mh_str value);

/* --- The request ----------------------------------------------------------------------------------------------- */

mh_str mh_request_id(const mh_context *context);
mh_str mh_method(const mh_context *context);
mh_str mh_path(const mh_context *context);
mh_str mh_query(const mh_context *context);
/* JSON text; `null` if the configuration has none. */
mh_str mh_metadata(const mh_context *context);
/* The request's parameters of the Open Inference Protocol, a JSON object. */
mh_str mh_parameters(const mh_context *context);
/* The header's first value, if it has one. Names match in any case. */
bool mh_request_header(const mh_context *context, const char *name, mh_str *value);
/* The part of the path for which `{name}` stands in the route's pattern, decoded; see modelhost_router.h. Empty if
 * the pattern has none of this name. */
mh_str mh_path_parameter(const mh_context *context, const char *name);
/* The request's body again, for post-inference. */
mh_sample mh_request_sample(const mh_context *context);

/* What a model expects or returns under one name; -1 is any extent. */
typedef struct {
    mh_str name;
    mh_datatype datatype;
    struct {
        const int64_t *data;
        size_t len;
    } shape;
} mh_tensor_spec;

typedef struct {
    struct {
        const mh_tensor_spec *items;
        size_t len;
    } inputs, outputs;
} mh_signature;

mh_signature mh_model_signature(const mh_context *context);

/* Runs a model of the endpoint, by its name in the configuration; "" is the first one. The outputs are in the model's
 * order. Without a place in the model's queue the error answers with 503, if it is returned. */
const mh_error *mh_infer(const char *model, mh_tensors inputs, mh_tensors *outputs);
/* For tests: what a model makes of its inputs. */
typedef const mh_error *mh_infer_function(const char *model, mh_tensors inputs, mh_tensors *outputs);
void mh_models_answer_with(mh_infer_function *function);

/* An input that the handler takes. */
typedef struct {
    const char *name;
    mh_datatype datatype;
    const int64_t *shape;
    size_t rank;
    bool optional;
    /* A value as JSON text, such as "[1, 2]"; needed unless the input is optional. */
    const char *example;
    const char *description;
} mh_input;

/* --- What the component exports -------------------------------------------------------------------------------- */

typedef const mh_error *mh_init_function(mh_str metadata);
typedef const mh_error *mh_pre_function(const mh_sample *sample, const mh_context *context, mh_tensors *inputs);
typedef const mh_error *mh_post_function(mh_tensors outputs, const mh_context *context, mh_response *response);
typedef const mh_error *mh_tensors_function(mh_tensors given, const mh_context *context, mh_tensors *made);

#include "modelhost_exports.h"

#ifdef __cplusplus
}
#endif

#endif
