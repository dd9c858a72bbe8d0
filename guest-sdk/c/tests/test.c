/* Unit tests of the SDK, without a host: JSON both ways, tensors, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modelhost.h"
#include "modelhost_libraries.h"

static void check(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

static mh_sample sample_of(const char *body) {
    return (mh_sample){.content_type = mh_text(""), .body = {(const uint8_t *)body, strlen(body)}};
}

static void numbers_are_read_and_what_is_wrong_is_named(void) {
    static const char *const names[] = {"b", "a"};
    float values[2];
    mh_sample good = sample_of(" {\"deep\": {\"a\": [1, \"}]\"], \"b\": \"\\\"a\\\"\"}, \"a\" : -1.5e1 , \"\\u0062\": 0.1} ");
    check(mh_numbers(&good, 2, names, values) == NULL && values[0] == 0.1f && values[1] == -15, "numbers");
    static const char *const cases[][2] = {
        {"{\"b\": 1}", "missing field `a`"},
        {"{\"b\": 1, \"a\": \"x\"}", "`a`: invalid type: string \"x\", expected f32"},
        {"{\"b\": true}", "`b`: invalid type: boolean `true`, expected f32"},
        {"{\"b\": 1e999}", "`b`: number out of range"},
        {"null", "invalid type: null, expected an object"},
        {"[]", "invalid type: sequence, expected an object"},
        {"{bad", "malformed json: "},
        {" ", "malformed json: the body is empty"},
        {"\xef\xbb\xbf{}", "malformed json: the body begins with a byte order mark"},
        {"{\"b\": 1, \"a\": 2, \"c\": \"\xff\"}", "malformed json: the body is not UTF-8"},
        {"{} x", "malformed json: "},
        {"{\"b\": 01}", "malformed json: "},
        {"{\"b\": 1.}", "malformed json: "},
        {"{\"b\": -}", "malformed json: "},
        {"{\"b\": \"\\ud800\"}", "malformed json: "},
        {"{\"b\": \"\\", "malformed json: "},
        {"{\"b\": \"a\nb\"}", "malformed json: "},
        {"[1,]", "malformed json: "},
        {"{\"a\" 1}", "malformed json: "},
        {"nul", "malformed json: "},
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        mh_sample bad = sample_of(cases[at][0]);
        const mh_error *error = mh_numbers(&bad, 2, names, values);
        mh_str text = error == NULL ? mh_text("nothing") : mh_error_text(error);
        size_t len = strlen(cases[at][1]);
        check(error != NULL && text.len >= len && memcmp(text.data, cases[at][1], len) == 0, cases[at][0]);
    }
    // What does not fit is cut, and what is no text is shown as such: the host takes UTF-8 alone.
    mh_sample cut = sample_of("{\"b\": \"a\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
                              "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"}");
    mh_str said = mh_error_text(mh_numbers(&cut, 1, names, values));
    check(strstr(said.data, "\xc3\xa9?\", expected") != NULL, "a character that is cut");
    said = mh_error_text(mh_invalid("\"%s\"", "\xff\xed\xa0\x80\xf0\x9f\x98\x80"));
    check(strstr(said.data, "\"????\xf0\x9f\x98\x80\"") != NULL, "bytes that are no characters");
    char deep[1001];
    memset(deep, '[', 1000);
    deep[1000] = 0;
    mh_sample body = sample_of(deep);
    check(mh_numbers(&body, 0, names, values) != NULL, "what is nested too deep is refused");
}

static void texts_are_read_as_they_are_meant(void) {
    const mh_json *json;
    mh_sample body = sample_of("\"a\\n\\u00e4\\ud83d\\ude00/\"");
    check(mh_json_read(body.body, &json) == NULL, "escapes");
    check(mh_equal(json->text, mh_text("a\n\xc3\xa4\xf0\x9f\x98\x80/")), "escapes are read");
}

static void documents_are_written_as_they_are_read(void) {
    mh_json_writer w = {0};
    mh_write_begin(&w, '{');
    mh_write_name(&w, "a\"");
    mh_write_begin(&w, '[');
    mh_write_number(&w, -12);
    mh_write_integer(&w, INT64_MIN);
    mh_write_unsigned(&w, UINT64_MAX);
    mh_write_float(&w, 0.25f);
    mh_write_number(&w, NAN);
    mh_write_bool(&w, true);
    mh_write_null(&w);
    mh_write_text(&w, mh_text("x\x01\\"));
    mh_write_end(&w, ']');
    mh_write_name(&w, "b");
    mh_write_begin(&w, '{');
    mh_write_end(&w, '}');
    mh_write_end(&w, '}');
    mh_response response = mh_json_response(&w);
    mh_str text = {(const char *)response.body.data, response.body.len};
    check(mh_equal(text, mh_text("{\"a\\\"\":[-12,-9223372036854775808,18446744073709551615,0.25,null,true,null,\"x\\u0001\\\\\"],\"b\":{}}")), "the document");
}

static void tensors_have_types(void) {
    const float values[] = {1, NAN, 3, 3};
    const uint64_t shape[] = {2, 2};
    mh_tensor tensor = mh_tensor_of(MH_FP32, values, shape, 2);
    check(mh_floats(&tensor)[2] == 3 && mh_values(&tensor, MH_INT64) == NULL, "values of their type only");
    tensor.data.len--;
    check(mh_floats(&tensor) == NULL, "data of another length");
    check(mh_argmax(values, 4) == 2, "argmax");
    mh_str texts[] = {mh_text("a"), mh_text(""), mh_text("bcd")};
    size_t count = 0;
    tensor = mh_tensor_of_texts(texts, 3);
    const mh_str *read = mh_texts(&tensor, &count);
    check(read != NULL && count == 3 && mh_equal(read[2], texts[2]), "texts");
    tensor.data.len--;
    check(mh_texts(&tensor, &count) == NULL, "texts that are cut off");
    check(mh_to_half(1) == 0x3c00 && mh_to_half(65520) == 0x7c00 && mh_to_half(-2) == 0xc000, "halves");
    check(mh_from_bfloat16(mh_to_bfloat16(-2)) == -2 && mh_from_bfloat16(mh_to_bfloat16(0.1f)) == 0.10009765625f, "bfloat16");
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = mh_from_half((uint16_t)bits);
        check(isnan(value) || mh_to_half(value) == bits, "a half and back");
    }
}

static void memory_lasts_until_the_call_is_over(void) {
    char *large = mh_alloc(1 << 20), *small = mh_alloc(10);
    memset(large, 1, 1 << 20);
    memset(small, 2, 10);
    check(large[(1 << 20) - 1] == 1 && small[9] == 2, "allocations do not overlap");
    mh_str kept = mh_keep(mh_text("stays"));
    mh_call_over();
    memset(mh_alloc(1000), 3, 1000);
    check(mh_equal(kept, mh_text("stays")), "what is kept stays");
}

static const mh_error *pictured(mh_bytes file, const mh_preparation *said, mh_picture *picture) {
    static const uint64_t shape[] = {1, 1};
    if (file.len == 0) return mh_invalid("no picture");
    check(said->datatype == MH_FP32 && said->scale == 1.0f / 255, "what is not said of a preparation");
    picture->tensor = mh_tensor_of(MH_UINT8, file.data, shape, 2);
    return NULL;
}

static const mh_error *encoded(mh_text_list texts, mh_text_list seconds, mh_encode_options options, mh_encoding *encoding) {
    uint64_t shape[] = {texts.len, (uint64_t)options.truncation};
    int64_t *ids = mh_alloc(texts.len * (size_t)options.truncation * sizeof *ids);
    memset(ids, 0, texts.len * (size_t)options.truncation * sizeof *ids);
    encoding->ids = mh_tensor_of(MH_INT64, ids, shape, seconds.len == 0 ? 2 : 1);
    return NULL;
}

static const mh_error *computed(const char *operation, const mh_tensor *given, size_t count, mh_tensor *made) {
    if (strcmp(operation, "mh_softmax") == 0) return mh_internal("as said");
    made[0] = given[count - 1];
    if (strcmp(operation, "mh_top_k") == 0) made[1] = given[0];
    return NULL;
}

static void what_comes_of_a_library_is_what_the_test_says(void) {
    static const uint8_t file[] = {7};
    mh_picture picture;
    check(mh_prepare((mh_bytes){file, 1}, &(mh_preparation){0}, &picture) != NULL, "nothing was said of pictures");
    mh_image_answer_with(pictured);
    check(mh_prepare((mh_bytes){file, 1}, &(mh_preparation){0}, &picture) == NULL, "a picture");
    check(picture.tensor.data.data[0] == 7, "the picture that was said");
    const mh_error *error = mh_prepare((mh_bytes){file, 0}, &(mh_preparation){0}, &picture);
    check(error != NULL && mh_equal(mh_error_text(error), mh_text("no picture")), "the error that was said");
    const mh_preparation wrong[] = {{.fit = 3}, {.filter = 5}, {.datatype = MH_FP64}, {.width = 4}};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
        check(mh_prepare((mh_bytes){file, 1}, &wrong[at], &picture) != NULL, "a preparation of other values");
    }

    mh_tokenizer words;
    mh_encoding encoding;
    mh_str texts[] = {mh_text("a"), mh_text("b")};
    check(mh_tokenizer_load((mh_bytes){file, 1}, &words) == NULL, "a tokenizer");
    mh_tokenizer_answer_with(encoded);
    error = mh_encode(words, (mh_text_list){texts, 2}, (mh_text_list){0}, (mh_encode_options){.truncation = 3}, &encoding);
    check(error == NULL && mh_count(&encoding.ids) == 6, "the tokens that were said");

    mh_tensor made, places, given = picture.tensor, text = mh_tensor_of_texts(texts, 2);
    check(mh_argmax_along(given, 0, &made) != NULL, "nothing was said of tensors");
    mh_tensor_answer_with(computed);
    check(mh_top_k(given, 1, 0, &made, &places) == NULL && places.data.data[0] == 7, "both tensors");
    check(mh_suppress(given, given, (mh_suppression){.classes = &encoding.ids}, &made) == NULL, "boxes");
    check(made.datatype == MH_INT64, "the classes are given");
    check(mh_softmax(given, 0, &made) != NULL && mh_normalise(text, 0, &made) != NULL, "errors");
}

static const mh_error *inferred(const char *model, mh_tensors inputs, mh_tensors *outputs) {
    if (strcmp(model, "none") == 0) return mh_internal("as said");
    *outputs = inputs;
    return NULL;
}

static void what_a_model_answers_is_what_the_test_says(void) {
    static const float values[] = {1, 2};
    static const uint64_t shape[] = {1, 2};
    mh_tensors outputs, inputs = mh_one(mh_tensor_of(MH_FP32, values, shape, 2));
    check(mh_infer("", inputs, &outputs) != NULL, "nothing was said of models");
    mh_models_answer_with(inferred);
    check(mh_infer("", inputs, &outputs) == NULL && mh_floats(&outputs.items[0])[1] == 2, "the outputs that were said");
    check(mh_infer("none", inputs, &outputs) != NULL, "the error that was said");
}

int main(void) {
    numbers_are_read_and_what_is_wrong_is_named();
    texts_are_read_as_they_are_meant();
    documents_are_written_as_they_are_read();
    tensors_have_types();
    memory_lasts_until_the_call_is_over();
    what_comes_of_a_library_is_what_the_test_says();
    what_a_model_answers_is_what_the_test_says();
    return 0;
}
