/* Pictures to bytes, as a header says. */
#include <modelhost_libraries.h>

typedef struct {
    const char *name;
    uint8_t value;
} choice;

static uint8_t chosen(const mh_json *said, const char *key, const choice *choices, size_t count) {
    const mh_json *value = mh_json_get(said, key);
    for (size_t at = 0; value != NULL && at < count; at++) {
        if (mh_equal(value->text, mh_text(choices[at].name))) return choices[at].value;
    }
    return 0;
}
#define CHOSEN(key, ...) \
    chosen(said, key, (const choice[]){__VA_ARGS__}, sizeof((choice[]){__VA_ARGS__}) / sizeof(choice))

static const mh_error *prepare(const mh_sample *sample, const mh_context *context, mh_tensors *inputs) {
    mh_str header = mh_text("{}");
    mh_request_header(context, "x-preparation", &header);
    const mh_json *said;
    const mh_error *error = mh_json_read((mh_bytes){(const uint8_t *)header.data, header.len}, &said);
    if (error != NULL) return error;
    static const float half[] = {0.5f};
    mh_preparation preparation = {
        .fit = CHOSEN("fit", {"cover", MH_COVER}, {"contain", MH_CONTAIN}),
        .filter = CHOSEN(
            "filter", {"nearest", MH_NEAREST}, {"box", MH_BOX}, {"bicubic", MH_BICUBIC}, {"lanczos", MH_LANCZOS}),
        .colours = CHOSEN("colours", {"grey", MH_GREY}, {"bgr", MH_BGR}),
        .layout = CHOSEN("layout", {"pixels", MH_PIXELS}),
        .datatype = CHOSEN("datatype", {"UINT8", MH_UINT8}),
        .mean = {half, mh_json_get(said, "mean") != NULL ? 1 : 0},
    };
    const mh_json *size = mh_json_get(said, "size");
    if (size != NULL) {
        preparation.width = (uint32_t)size->first->number;
        preparation.height = (uint32_t)size->first->next->number;
    }
    mh_picture_info info;
    error = mh_inspect(sample->body, &info);
    if (error != NULL) return error;
    mh_picture picture;
    error = mh_prepare(sample->body, &preparation, &picture);
    if (error != NULL) return error;
    *inputs = mh_one(picture.tensor);
    return NULL;
}
MH_PRE_INFERENCE(prepare)

static const mh_error *answer(mh_tensors outputs, const mh_context *context, mh_response *response) {
    (void)context;
    const mh_tensor *pixels = &outputs.items[0];
    mh_json_writer shape = {0};
    mh_write_begin(&shape, '[');
    for (size_t axis = 0; axis < pixels->shape.len; axis++) mh_write_number(&shape, (double)pixels->shape.data[axis]);
    mh_write_end(&shape, ']');
    mh_header *header = mh_alloc(sizeof *header);
    *header = (mh_header){mh_text("x-shape"), {shape.data, shape.len}};
    *response = (mh_response){.status = 200, .headers = {header, 1}, .body = pixels->data};
    return NULL;
}
MH_POST_INFERENCE(answer)
