/* The library `tensor`, as the component model has it in a module. */
#include <string.h>

#include "internal.h"
#include "modelhost_libraries.h"

static mh_compute_function *answer;

void mh_tensor_answer_with(mh_compute_function *function) { answer = function; }

/* The arguments of a call, of which each operation has its own. */
typedef struct {
    const char *operation;
    const mh_tensor *given;
    size_t count;
    int32_t axis;
    uint32_t most;
    mh_suppression suppression;
} call;

#ifdef __wasm__
#define IMPORT(name) __attribute__((import_module("modelhost:tensor/arithmetic@0.1.0"), import_name(name)))

typedef struct {
    mh_datatype datatype;
    mh_shape shape;
    mh_bytes data;
} raw_tensor;

typedef struct {
    uint8_t is_error;
    union {
        raw_tensor tensors[2];
        mh_str text;
    } as;
} raw_result;

typedef struct {
    raw_tensor boxes, scores;
    uint8_t has_classes;
    raw_tensor classes;
    float most_overlap, least_score;
    uint32_t most;
} raw_suppression;

_Static_assert(sizeof(raw_tensor) == 20 && offsetof(raw_tensor, data) == 12, "the interface's `tensor`");
_Static_assert(sizeof(raw_suppression) == 76 && sizeof(raw_result) == 44, "`suppress`, the result of `top-k`");

/* A tensor as arguments. */
#define TENSOR(it) int32_t it##_datatype, const uint64_t *it##_shape, size_t it##_rank, const uint8_t *it##_data, size_t it##_len
#define PASSED(it) (it).datatype, (it).shape.data, (it).shape.len, (it).data.data, (it).data.len

IMPORT("argmax") void mh_host_argmax(TENSOR(it), int32_t axis, raw_result *result);
IMPORT("top-k") void mh_host_top_k(TENSOR(it), uint32_t count, int32_t axis, raw_result *result);
IMPORT("softmax") void mh_host_softmax(TENSOR(it), int32_t axis, raw_result *result);
IMPORT("normalise") void mh_host_normalise(TENSOR(it), int32_t axis, raw_result *result);
IMPORT("mean-pool") void mh_host_mean_pool(TENSOR(it), TENSOR(mask), raw_result *result);
IMPORT("concat") void mh_host_concat(const raw_tensor *tensors, size_t count, int32_t axis, raw_result *result);
IMPORT("gather") void mh_host_gather(TENSOR(it), TENSOR(places), int32_t axis, raw_result *result);
IMPORT("suppress") void mh_host_suppress(const raw_suppression *arguments, raw_result *result);

static raw_tensor raw(mh_tensor tensor) { return (raw_tensor){tensor.datatype, tensor.shape, tensor.data}; }

static const mh_error *compute(const call *said, mh_tensor *made, size_t count) {
    mh_tensor a = {0}, b = {0};
    if (said->count > 0) a = said->given[0], b = said->given[said->count - 1];
    raw_result result;
    const char *operation = said->operation + strlen("mh_");
    if (strcmp(operation, "argmax_along") == 0) {
        mh_host_argmax(PASSED(a), said->axis, &result);
    } else if (strcmp(operation, "top_k") == 0) {
        mh_host_top_k(PASSED(a), said->most, said->axis, &result);
    } else if (strcmp(operation, "softmax") == 0) {
        mh_host_softmax(PASSED(a), said->axis, &result);
    } else if (strcmp(operation, "normalise") == 0) {
        mh_host_normalise(PASSED(a), said->axis, &result);
    } else if (strcmp(operation, "mean_pool") == 0) {
        mh_host_mean_pool(PASSED(a), PASSED(b), &result);
    } else if (strcmp(operation, "gather") == 0) {
        mh_host_gather(PASSED(a), PASSED(b), said->axis, &result);
    } else if (strcmp(operation, "concat") == 0) {
        raw_tensor *tensors = mh_alloc(said->count * sizeof *tensors);
        for (size_t at = 0; at < said->count; at++) tensors[at] = raw(said->given[at]);
        mh_host_concat(tensors, said->count, said->axis, &result);
    } else {
        mh_suppression limits = said->suppression;
        raw_suppression arguments = {
            .boxes = raw(a),
            .scores = raw(said->given[1]),
            .has_classes = limits.classes != NULL,
            .most_overlap = limits.most_overlap,
            .least_score = limits.least_score,
            .most = limits.most,
        };
        if (limits.classes != NULL) arguments.classes = raw(*limits.classes);
        mh_host_suppress(&arguments, &result);
    }
    if (result.is_error) return mh_internal("%.*s", (int)result.as.text.len, result.as.text.data);
    for (size_t at = 0; at < count; at++) {
        raw_tensor tensor = result.as.tensors[at];
        made[at] = (mh_tensor){.name = {"", 0}, .datatype = tensor.datatype, .shape = tensor.shape, .data = tensor.data};
    }
    return NULL;
}
#else
static const mh_error *compute(const call *said, mh_tensor *made, size_t count) {
    (void)count;
    if (answer == NULL) return mh_internal("the test does not say what comes of tensors: mh_tensor_answer_with");
    return answer(said->operation, said->given, said->count, made);
}
#endif

static const mh_error *computed(call said, mh_tensor *made, size_t count) {
    for (size_t at = 0; at < said.count; at++) {
        if (said.given[at].datatype >= MH_BYTES) return mh_internal("a tensor of MH_BYTES has no numbers");
    }
    return compute(&said, made, count);
}

static const mh_error *of_one(const char *operation, mh_tensor tensor, int32_t axis, mh_tensor *made) {
    return computed((call){.operation = operation, .given = &tensor, .count = 1, .axis = axis}, made, 1);
}

const mh_error *mh_argmax_along(mh_tensor tensor, int32_t axis, mh_tensor *made) {
    return of_one("mh_argmax_along", tensor, axis, made);
}

const mh_error *mh_softmax(mh_tensor tensor, int32_t axis, mh_tensor *made) {
    return of_one("mh_softmax", tensor, axis, made);
}

const mh_error *mh_normalise(mh_tensor tensor, int32_t axis, mh_tensor *made) {
    return of_one("mh_normalise", tensor, axis, made);
}

const mh_error *mh_top_k(mh_tensor tensor, uint32_t count, int32_t axis, mh_tensor *values, mh_tensor *places) {
    mh_tensor made[2];
    call said = {.operation = "mh_top_k", .given = &tensor, .count = 1, .axis = axis, .most = count};
    const mh_error *error = computed(said, made, 2);
    if (error != NULL) return error;
    *values = made[0];
    *places = made[1];
    return NULL;
}

const mh_error *mh_mean_pool(mh_tensor tensor, mh_tensor mask, mh_tensor *made) {
    mh_tensor given[] = {tensor, mask};
    return computed((call){.operation = "mh_mean_pool", .given = given, .count = 2}, made, 1);
}

const mh_error *mh_concat(mh_tensors tensors, int32_t axis, mh_tensor *made) {
    call said = {.operation = "mh_concat", .given = tensors.items, .count = tensors.len, .axis = axis};
    return computed(said, made, 1);
}

const mh_error *mh_gather(mh_tensor tensor, mh_tensor places, int32_t axis, mh_tensor *made) {
    mh_tensor given[] = {tensor, places};
    return computed((call){.operation = "mh_gather", .given = given, .count = 2, .axis = axis}, made, 1);
}

const mh_error *mh_suppress(mh_tensor boxes, mh_tensor scores, mh_suppression suppression, mh_tensor *made) {
    mh_tensor given[3] = {boxes, scores};
    if (suppression.classes != NULL) given[2] = *suppression.classes;
    size_t count = suppression.classes != NULL ? 3 : 2;
    return computed(
        (call){.operation = "mh_suppress", .given = given, .count = count, .suppression = suppression}, made, 1);
}
