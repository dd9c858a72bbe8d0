/* Does as the body says (`{"do": "file"}`), and makes each tensor anew, by the type of its elements. */
#include <modelhost.h>
#include <stdio.h>

static mh_str label;

static const mh_error *load(mh_str metadata) {
    const mh_json *json;
    const mh_error *error = mh_json_read((mh_bytes){(const uint8_t *)metadata.data, metadata.len}, &json);
    if (error != NULL) return error;
    const mh_json *found = mh_json_get(json, "label");
    if (found == NULL) return mh_internal("`metadata` needs `label`");
    label = mh_keep(found->text);
    return NULL;
}
MH_INIT(load)

static const mh_error *greeting(mh_str *text) {
    FILE *file = fopen("/mnt/project/greeting.json", "r");
    if (file == NULL) return mh_internal("the file cannot be opened");
    uint8_t *bytes = mh_alloc(1024);
    size_t len = fread(bytes, 1, 1024, file);
    fclose(file);
    const mh_json *json;
    const mh_error *error = mh_json_read((mh_bytes){bytes, len}, &json);
    if (error != NULL) return error;
    *text = mh_json_get(json, "greeting")->text;
    return NULL;
}

static const mh_error *prepare(const mh_sample *sample, const mh_context *context, mh_tensors *inputs) {
    (void)context;
    const mh_json *json;
    const mh_error *error = mh_json_read(sample->body, &json);
    if (error != NULL) return error;
    const mh_json *order = mh_json_get(json, "do");
    if (order == NULL) return mh_invalid("missing field `do`");
    mh_str text = order->text;
    if (mh_equal(text, mh_text("invalid"))) return mh_invalid("as asked");
    if (mh_equal(text, mh_text("internal"))) return mh_internal("as asked");
    if (mh_equal(text, mh_text("respond"))) {
        mh_response teapot = mh_text_response(mh_text("teapot"));
        teapot.status = 418;
        return mh_respond(teapot);
    }
    if (mh_equal(text, mh_text("file"))) error = greeting(&text);
    if (error != NULL) return error;
    mh_tensor tensor = mh_tensor_of_texts(&text, 1);
    tensor.name = mh_text("text");
    *inputs = mh_one(tensor);
    return NULL;
}
MH_PRE_INFERENCE(prepare)

static const mh_error *answer(mh_tensors outputs, const mh_context *context, mh_response *response) {
    (void)context;
    size_t count = 0;
    const mh_tensor *output = mh_named(outputs, "text");
    const mh_str *texts = output == NULL ? NULL : mh_texts(output, &count);
    if (texts == NULL || count != 1) return mh_internal("no text");
    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    mh_write_name(&json, "answer");
    mh_write_text(&json, texts[0]);
    mh_write_name(&json, "label");
    mh_write_text(&json, label);
    mh_write_end(&json, '}');
    *response = mh_json_response(&json);
    return NULL;
}
MH_POST_INFERENCE(answer)

static const mh_error *again(mh_tensors given, const mh_context *context, mh_tensors *made) {
    (void)context;
    made->items = mh_alloc(given.len * sizeof *made->items);
    made->len = given.len;
    for (size_t at = 0; at < given.len; at++) {
        const mh_tensor *it = &given.items[at];
        mh_tensor other;
        if (it->datatype == MH_BYTES) {
            size_t count = 0;
            const mh_str *texts = mh_texts(it, &count);
            if (texts == NULL) return mh_internal("no texts");
            other = mh_tensor_of_texts(texts, count);
            other.shape = it->shape;
        } else {
            const void *values = mh_values(it, it->datatype);
            if (values == NULL) return mh_internal("no values");
            other = mh_tensor_of(it->datatype, values, it->shape.data, it->shape.len);
        }
        other.name = it->name;
        made->items[at] = other;
    }
    return NULL;
}
MH_PRE_INFERENCE_TENSORS(again)
MH_POST_INFERENCE_TENSORS(again)
