/* Names an iris from four measurements.
 *
 * In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
 * Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
 *
 * The model takes `[rows, 4]` floats; its output `probabilities` holds one for each class.
 */
#include <modelhost.h>

#define FEATURES 4
static const char *const names[FEATURES] = {"sepal_length", "sepal_width", "petal_length", "petal_width"};

#define MOST_LABELS 16
static mh_str labels[MOST_LABELS];
static size_t label_count;

/* Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml. */
static const mh_error *load(mh_str metadata) {
    const mh_json *json;
    const mh_error *error = mh_json_read((mh_bytes){(const uint8_t *)metadata.data, metadata.len}, &json);
    if (error != NULL) return error;
    const mh_json *list = mh_json_get(json, "labels");
    if (list == NULL || list->kind != MH_JSON_ARRAY || list->len > MOST_LABELS) {
        return mh_internal("`metadata` needs `labels`, at most %d", MOST_LABELS);
    }
    for (const mh_json *label = list->first; label != NULL; label = label->next) {
        labels[label_count++] = mh_keep(label->text);
    }
    return NULL;
}
MH_INIT(load)

/* From the request to the model's input. */
static const mh_error *prepare(const mh_sample *sample, const mh_context *context, mh_tensors *inputs) {
    (void)context;
    float *flower = mh_alloc(FEATURES * sizeof *flower);
    const mh_error *error = mh_numbers(sample, FEATURES, names, flower);
    if (error != NULL) return error;
    const uint64_t shape[] = {1, FEATURES};
    *inputs = mh_one(mh_tensor_of(MH_FP32, flower, shape, 2));
    return NULL;
}
MH_PRE_INFERENCE(prepare)

/* From the model's outputs to the response. */
static const mh_error *answer(mh_tensors outputs, const mh_context *context, mh_response *response) {
    (void)context;
    const mh_tensor *output = mh_named(outputs, "probabilities");
    const float *probabilities = output == NULL ? NULL : mh_floats(output);
    if (probabilities == NULL) return mh_internal("the model has no FP32 output `probabilities`");
    size_t count = (size_t)mh_count(output), best = mh_argmax(probabilities, count);
    if (best >= label_count) return mh_internal("more classes than labels");

    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    mh_write_name(&json, "class_label");
    mh_write_text(&json, labels[best]);
    mh_write_name(&json, "class_index");
    mh_write_number(&json, (double)best);
    mh_write_name(&json, "probabilities");
    mh_write_floats(&json, probabilities, count);
    mh_write_end(&json, '}');
    *response = mh_json_response(&json);
    return NULL;
}
MH_POST_INFERENCE(answer)
