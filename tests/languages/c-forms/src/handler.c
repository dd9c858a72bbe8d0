/* An application that tells the parts of a form, and sets two cookies: see tests/languages/multipart.json. */
#include <modelhost_form.h>
#include <modelhost_router.h>

static const mh_error *form(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)context, (void)output;
    mh_form form;
    const mh_error *error = mh_multipart(sample, &form);
    if (error != NULL) return error;
    mh_json_writer w = {0};
    mh_write_begin(&w, '{');
    mh_write_name(&w, "parts");
    mh_write_begin(&w, '[');
    for (size_t at = 0; at < form.len; at++) {
        const mh_part *part = &form.items[at];
        int64_t sum = 0;
        for (size_t byte = 0; byte < part->body.len; byte++) sum += part->body.data[byte];
        mh_write_begin(&w, '{');
        mh_write_name(&w, "name");
        mh_write_text(&w, part->name);
        mh_write_name(&w, "filename");
        if (part->is_file) mh_write_text(&w, part->filename);
        else mh_write_null(&w);
        mh_write_name(&w, "type");
        mh_write_text(&w, part->content_type);
        mh_write_name(&w, "size");
        mh_write_unsigned(&w, part->body.len);
        mh_write_name(&w, "sum");
        mh_write_integer(&w, sum);
        mh_write_end(&w, '}');
    }
    mh_write_end(&w, ']');
    mh_write_end(&w, '}');
    *response = mh_json_response(&w);
    return NULL;
}

static const mh_error *cookies(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)context, (void)output;
    *response = mh_text_response(mh_text("baked"));
    mh_add_header(response, mh_text("set-cookie"), mh_text("a=1"));
    mh_add_header(response, mh_text("set-cookie"), mh_text("b=2"));
    return NULL;
}

static const mh_route routes[] = {MH_POST("/form", form), MH_GET("/cookies", cookies)};
MH_ROUTES(routes)
