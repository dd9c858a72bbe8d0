/* Unit tests of the SDK, without a host: JSON both ways, tensors, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modelhost.h"

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
        {"", "malformed json: "},
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
    check(mh_equal(text, mh_text("{\"a\\\"\":[-12,0.25,null,true,null,\"x\\u0001\\\\\"],\"b\":{}}")), "the document");
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

int main(void) {
    numbers_are_read_and_what_is_wrong_is_named();
    texts_are_read_as_they_are_meant();
    documents_are_written_as_they_are_read();
    tensors_have_types();
    memory_lasts_until_the_call_is_over();
    return 0;
}
