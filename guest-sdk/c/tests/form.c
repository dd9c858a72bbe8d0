/* Unit tests of forms with files. */
#include "modelhost_form.h"

#include <string.h>

#include "check.h"

#define HEAD "Content-Disposition: form-data; name=\"a\""
static const char *const form_type = "multipart/form-data; boundary=XX";

/* `name|filename|type|body;` for each part, or the error. In the text LF stands for CR LF. */
static mh_str shown(const char *text, const char *type) {
    char *body = mh_alloc(2 * strlen(text) + 1);
    size_t len = 0;
    for (; *text; text++) {
        if (*text == '\n') body[len++] = '\r';
        body[len++] = *text;
    }
    mh_sample sample = {mh_text(type), {(const uint8_t *)body, len}};
    mh_form form;
    const mh_error *error = mh_multipart(&sample, &form);
    if (error != NULL) return mh_error_text(error);
    const char *all = "";
    for (size_t at = 0; at < form.len; at++) {
        mh_part part = form.items[at];
        mh_str filename = part.is_file ? part.filename : mh_text("-");
        all = mh_format("%s%.*s|%.*s|%.*s|%.*s;", all, (int)part.name.len, part.name.data, (int)filename.len, filename.data,
            (int)part.content_type.len, part.content_type.data, (int)part.body.len, (const char *)part.body.data).data;
    }
    return mh_text(all);
}

static void is_shown(const char *text, const char *type, const char *expected) {
    mh_str found = shown(text, type);
    if (!mh_equal(found, mh_text(expected))) fprintf(stderr, "%.*s, expected %s\n", (int)found.len, found.data, expected);
    check(mh_equal(found, mh_text(expected)), text);
}

static const char *many(int count) {
    char *text = mh_alloc(64 * 1001 + 16);
    *text = 0;
    size_t at = 0;
    for (int n = 0; n < count; n++) at += (size_t)sprintf(text + at, "--XX\n" HEAD "\n\n1\n");
    sprintf(text + at, "--XX--");
    return text;
}

static void parts_are_found(void) {
    is_shown("preamble\n--XX\nContent-Disposition: form-data; name=\"title\"\n\nhello\n--XX  \ncontent-type: image/png\n"
             "Content-Disposition: form-data; name=file; filename=\"a \\\"b\\\".png\"\n\n--X\n\n--XXY\n--XX--\nepilogue",
        form_type, "title|-|text/plain|hello;file|a \"b\".png|image/png|--X\r\n\r\n--XXY;");
    is_shown("--a b--", "Multipart/Form-Data; boundary=\"a b\"", "");
    static const char *const named[][2] = {
        {"; filename=\"a%22%0D%0A%20.txt\"", "a|a\"\r\n%20.txt|text/plain|1;"},
        {"; filename=x; filename*=utf-8'de'%C3%BC%2F%.txt", "a|\u00fc/%.txt|text/plain|1;"},
        {"; filename*=ISO-8859-1''%FC", "a|\u00fc|text/plain|1;"},
        {"; filename=\"\"", "a||text/plain|1;"},
        {"; filename=\"C:\\a\\\u00fc.txt\"", "a|C:\\a\\\u00fc.txt|text/plain|1;"},
    };
    for (size_t at = 0; at < sizeof named / sizeof *named; at++) {
        is_shown(mh_format("--XX\n" HEAD "%s\n\n1\n--XX--", named[at][0]).data, form_type, named[at][1]);
    }
}

static void what_is_no_form_is_refused(void) {
    const char *long_head = mh_format("--XX\n" HEAD "\nx: %09000d\n\n1\n--XX--", 0).data;
    const char *const cases[][2] = {
        {"", "no boundary is in the body"},
        {"--XXY\n", "no boundary is in the body"},
        {"--XX\n", "the last boundary is missing"},
        {"--XX\n" HEAD "\n\nx\n--XX", "the last boundary is missing"},
        {"--XX\n" HEAD "\n--XX--", "no end of a part's headers within 8192 bytes"},
        {long_head, "no end of a part's headers within 8192 bytes"},
        {"--XX\n\nhello\n--XX--", "a part without `content-disposition: form-data; name=…`"},
        {"--XX\nnonsense\n\n\n--XX--", "a header without a colon"},
        {"--XX\nx: \xff\n\n\n--XX--", "the headers of a part are not UTF-8"},
        {"--XX\n" HEAD "\ncontent-transfer-encoding: base64\n\n\n--XX--", "a part with a transfer encoding, which forms do not have"},
        {"--XX\n" HEAD "; filename*=UTF-8''%FF\n\n\n--XX--", "a `filename*` that is not `UTF-8''` and a name with percent signs"},
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        is_shown(cases[at][0], form_type, mh_format("malformed multipart: %s", cases[at][1]).data);
    }
    is_shown("", "multipart/form-data", "malformed multipart: the content type has no boundary");
    is_shown(many(1001), form_type, "more than 1000 parts");
    check(shown(many(1000), form_type).len == 1000 * strlen("a|-|text/plain|1;"), "1000 parts");
    is_shown("", "text/plain; a=b",
        "{\"error\":\"expected `multipart/form-data`, got `text/plain`\",\"code\":\"unsupported_media_type\",\"stage\":"
        "\"pre_inference\"}");
}

static void parts_are_named(void) {
    static const char body[] = "--XX\r\n" HEAD "\r\n\r\nh\r\n--XX\r\n" HEAD "; filename=x\r\n\r\n\xff\r\n--XX--";
    mh_sample sample = {mh_text(form_type), {(const uint8_t *)body, sizeof body - 1}};
    mh_form form;
    check(mh_multipart(&sample, &form) == NULL && form.len == 2, "two parts");
    mh_str text;
    check(mh_part_text(mh_form_field(&form, "a"), &text) == NULL && mh_equal(text, mh_text("h")), "a field");
    const mh_part *file = mh_form_file(&form, "a");
    const mh_error *error = mh_part_text(file, &text);
    check(error != NULL && mh_equal(mh_error_text(error), mh_text("the part `a` is not UTF-8")), "a file");
    check(mh_form_field(&form, "b") == NULL && mh_form_file(&form, "b") == NULL, "nothing");
}

static void headers_are_added(void) {
    mh_response response = mh_text_response(mh_text(""));
    mh_add_header(&response, mh_text("set-cookie"), mh_text("a=1"));
    mh_add_header(&response, mh_text("set-cookie"), mh_text("b=2"));
    check(response.headers.len == 2 && mh_equal(response.headers.items[1].value, mh_text("b=2")), "two cookies");
    check(mh_equal(response.headers.items[0].value, mh_text("a=1")), "the first one");
}

int main(void) {
    parts_are_found();
    what_is_no_form_is_refused();
    parts_are_named();
    headers_are_added();
    return 0;
}
