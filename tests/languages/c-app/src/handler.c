/* An application with a stream: each number is an event, sent while the next one is made. */
#include <modelhost_app.h>
#include <stdio.h>

static mh_str label;

static const mh_error *load(mh_str metadata) {
    const mh_json *json;
    const mh_error *error = mh_json_read((mh_bytes){(const uint8_t *)metadata.data, metadata.len}, &json);
    if (error != NULL) return error;
    label = mh_keep(mh_json_get(json, "label")->text);
    return NULL;
}
MH_INIT(load)

static const mh_error *stream(const mh_sample *sample, mh_output *output) {
    const mh_json *json;
    const mh_error *error = mh_json_read(sample->body, &json);
    if (error != NULL) return error;
    const mh_json *to = mh_json_get(json, "to");
    if (to == NULL) return mh_invalid("missing field `to`");
    mh_json_writer event = {0};
    for (int number = 0; number < (int)to->number; number++) {
        mh_write_begin(&event, '{');
        mh_write_name(&event, "number");
        mh_write_number(&event, number);
        mh_write_end(&event, '}');
        if (!mh_event(output, &event)) break;
    }
    return NULL;
}

static const mh_error *scores(const mh_sample *sample, mh_response *response) {
    const mh_json *json;
    const mh_error *error = mh_json_read(sample->body, &json);
    if (error != NULL) return error;
    static const float flower[] = {5.2f, 3.6f, 1.4f, 0.3f};
    static const uint64_t shape[] = {1, 4};
    mh_tensors outputs;
    mh_str name = mh_json_get(json, "model")->text;
    mh_str model = mh_format("%.*s", (int)name.len, name.data);
    error = mh_infer(model.data, mh_one(mh_tensor_of(MH_FP32, flower, shape, 2)), &outputs);
    if (error != NULL) return error;
    const mh_tensor *last = &outputs.items[outputs.len - 1];
    mh_json_writer answer = {0};
    mh_write_begin(&answer, '{');
    mh_write_name(&answer, "scores");
    mh_write_floats(&answer, mh_floats(last), mh_count(last));
    mh_write_end(&answer, '}');
    *response = mh_json_response(&answer);
    return NULL;
}

static const mh_error *serve(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    mh_str method = mh_method(context), path = mh_path(context);
    if (mh_equal(method, mh_text("GET")) && mh_equal(path, mh_text("/label"))) {
        mh_json_writer json = {0};
        mh_write_begin(&json, '{');
        mh_write_name(&json, "label");
        mh_write_text(&json, label);
        mh_write_end(&json, '}');
        *response = mh_json_response(&json);
        return NULL;
    }
    if (mh_equal(path, mh_text("/stream"))) return stream(sample, output);
    if (mh_equal(path, mh_text("/breaks"))) {
        const mh_error *error = stream(sample, output);
        return error != NULL ? error : mh_internal("as asked");
    }
    if (mh_equal(path, mh_text("/scores"))) return scores(sample, response);
    if (mh_equal(path, mh_text("/works"))) {
        mh_response started = mh_text_response(mh_text("started"));
        started.status = 202;
        const mh_error *error = mh_send(output, started);
        /* The log has each line, not the first alone. */
        if (error == NULL) puts("works\nworked");
        return error;
    }
    *response = mh_text_response(mh_text("no such path"));
    response->status = 404;
    return NULL;
}
MH_RESPOND(serve)
