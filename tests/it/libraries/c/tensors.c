/* Computes what the body says. */
#include <modelhost_libraries.h>
#include <stdlib.h>
#include <string.h>

static const char *const datatypes[] = {"BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
                                        "INT32", "INT64", "FP16", "BF16", "FP32", "FP64"};

static mh_datatype datatype_of(mh_str name) {
    mh_datatype datatype = 0;
    while (datatype < MH_FP64 && !mh_equal(name, mh_text(datatypes[datatype]))) datatype++;
    return datatype;
}

/* `["FP32", [2], [1, 2]]` */
static mh_tensor read(const mh_json *said) {
    mh_datatype datatype = datatype_of(said->first->text);
    const mh_json *extents = said->first->next, *values = extents->next;
    uint64_t *shape = mh_alloc(extents->len * sizeof *shape);
    size_t rank = 0, size = mh_size_of(datatype);
    for (const mh_json *each = extents->first; each != NULL; each = each->next) shape[rank++] = (uint64_t)each->number;
    uint8_t *data = mh_alloc(values->len * size), *end = data;
    for (const mh_json *each = values->first; each != NULL; each = each->next, end += size) {
        /* Whole numbers of 64 bits are no `double`. */
        uint64_t whole = each->kind == MH_JSON_BOOL ? each->boolean : (uint64_t)strtoll(each->text.data, NULL, 10);
        float single = (float)each->number;
        uint16_t half = mh_to_half(single);
        const void *from = datatype == MH_FP64   ? (const void *)&each->number
                           : datatype == MH_FP32 ? (const void *)&single
                           : datatype == MH_FP16 ? (const void *)&half
                                                 : (const void *)&whole;
        memcpy(end, from, size);
    }
    mh_tensor tensor = mh_tensor_of(datatype, data, shape, rank);
    return tensor;
}

static double number(const mh_tensor *tensor, size_t at) {
    const uint8_t *from = tensor->data.data + at * mh_size_of(tensor->datatype);
    uint64_t whole = 0;
    memcpy(&whole, from, mh_size_of(tensor->datatype));
    float single;
    double wide;
    memcpy(&single, &whole, sizeof single);
    memcpy(&wide, &whole, sizeof wide);
    switch (tensor->datatype) {
        case MH_FP16: return mh_from_half((uint16_t)whole);
        case MH_FP32: return single;
        case MH_FP64: return wide;
        case MH_INT8: return (int8_t)whole;
        case MH_INT16: return (int16_t)whole;
        case MH_INT32: return (int32_t)whole;
        case MH_INT64: return (double)(int64_t)whole;
        default: return (double)whole;
    }
}

static bool is(const mh_json *said, const char *operation) {
    return mh_equal(mh_json_get(said, "operation")->text, mh_text(operation));
}

static const mh_error *called(const mh_json *said, mh_tensors given, mh_tensor *made, size_t *count) {
    const mh_json *first = mh_json_get(said, "values")->first, *second = first != NULL ? first->next : NULL;
    int32_t axis = first == NULL ? 0 : (int32_t)(second != NULL ? second : first)->number;
    mh_tensor one = given.items[0], other = given.items[given.len - 1];
    *count = 1;
    if (is(said, "argmax")) return mh_argmax_along(one, axis, made);
    if (is(said, "softmax")) return mh_softmax(one, axis, made);
    if (is(said, "normalise")) return mh_normalise(one, axis, made);
    if (is(said, "mean_pool")) return mh_mean_pool(one, other, made);
    if (is(said, "concat")) return mh_concat(given, axis, made);
    if (is(said, "gather")) return mh_gather(one, other, axis, made);
    if (is(said, "top_k")) {
        *count = 2;
        return mh_top_k(one, (uint32_t)first->number, axis, &made[0], &made[1]);
    }
    mh_suppression limits = {
        .classes = given.len == 3 ? &given.items[2] : NULL,
        .most_overlap = (float)first->number,
        .least_score = (float)second->number,
        .most = (uint32_t)second->next->number,
    };
    return mh_suppress(one, given.items[1], limits, made);
}

static const mh_error *compute(const mh_sample *sample, const mh_context *context, mh_tensors *inputs) {
    (void)context, (void)inputs;
    const mh_json *said;
    const mh_error *error = mh_json_read(sample->body, &said);
    if (error != NULL) return error;
    const mh_json *tensors = mh_json_get(said, "tensors");
    if (tensors == NULL) return mh_invalid("missing field `tensors`");
    mh_tensors given = {mh_alloc(tensors->len * sizeof *given.items), 0};
    for (const mh_json *each = tensors->first; each != NULL; each = each->next) given.items[given.len++] = read(each);
    mh_tensor made[2];
    size_t count;
    error = called(said, given, made, &count);
    if (error != NULL) return error;
    mh_json_writer answer = {0};
    mh_write_begin(&answer, '[');
    for (size_t at = 0; at < count; at++) {
        mh_write_begin(&answer, '[');
        mh_write_text(&answer, mh_text(datatypes[made[at].datatype]));
        mh_write_begin(&answer, '[');
        for (size_t axis = 0; axis < made[at].shape.len; axis++) mh_write_number(&answer, (double)made[at].shape.data[axis]);
        mh_write_end(&answer, ']');
        mh_write_begin(&answer, '[');
        for (size_t value = 0; value < mh_count(&made[at]); value++) mh_write_number(&answer, number(&made[at], value));
        mh_write_end(&answer, ']');
        mh_write_end(&answer, ']');
    }
    mh_write_end(&answer, ']');
    return mh_respond(mh_json_response(&answer));
}
MH_PRE_INFERENCE(compute)

static const mh_error *answer(mh_tensors outputs, const mh_context *context, mh_response *response) {
    (void)outputs, (void)context, (void)response;
    return NULL;
}
MH_POST_INFERENCE(answer)
