/* An application that keeps values and objects and submits jobs, by routes. */
#include <modelhost_blobs.h>
#include <modelhost_jobs.h>
#include <modelhost_kv.h>
#include <modelhost_router.h>

#include <inttypes.h>

/* Leaves a bucket open, which is closed when it returns: what it keeps in memory is part of the component. */
static const mh_error *load(mh_str metadata) {
    (void)metadata;
    mh_bucket bucket;
    return mh_kv_open("default", &bucket);
}
MH_INIT(load)

static const mh_error *text(mh_response *response, mh_str text) {
    *response = mh_text_response(text);
    return NULL;
}

static const mh_error *visit(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)output;
    mh_bucket bucket;
    int64_t count;
    const mh_error *error = mh_kv_open("default", &bucket);
    if (error == NULL) error = mh_kv_increment(bucket, mh_path_parameter(context, "name"), 1, 0, &count);
    return error != NULL ? error : text(response, mh_format("visit %" PRId64, count));
}

static const mh_error *item(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)output;
    mh_bucket bucket;
    mh_bytes found;
    const mh_error *error = mh_kv_open("default", &bucket);
    if (error == NULL) error = mh_kv_get(bucket, mh_path_parameter(context, "id"), &found);
    if (error != NULL) return error;
    *response = mh_text_response(found.data == NULL ? mh_text("none") : mh_text_of(found));
    if (found.data == NULL) response->status = 404;
    return NULL;
}

static const mh_error *keep(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)output;
    mh_bucket bucket;
    response->status = 204;
    const mh_error *error = mh_kv_open("default", &bucket);
    return error != NULL ? error : mh_kv_set(bucket, mh_path_parameter(context, "id"), sample->body, 60 * 1000);
}

static const mh_error *drop(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)output;
    mh_bucket bucket;
    response->status = 204;
    const mh_error *error = mh_kv_open("default", &bucket);
    return error != NULL ? error : mh_kv_delete(bucket, mh_path_parameter(context, "id"));
}

/* Each function of a bucket, and what it says. */
static const mh_error *tour(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)context, (void)output;
    mh_bucket bucket, none;
    mh_bytes found, absent = {NULL, 0};
    bool added, again, wrong, swapped, made;
    mh_text_list keys, page;
    mh_str cursor = {NULL, 0};
    const mh_error *error = mh_kv_open("default", &bucket);
    if (error == NULL) error = mh_kv_set(bucket, mh_text("tour/a"), sample->body, 60 * 1000);
    if (error == NULL) error = mh_kv_add(bucket, mh_text("tour/b"), mh_bytes_of(mh_text("")), 0, &added);
    if (error == NULL) error = mh_kv_add(bucket, mh_text("tour/b"), mh_bytes_of(mh_text("x")), 0, &again);
    if (error == NULL) error = mh_kv_get(bucket, mh_text("tour/b"), &found);
    if (error == NULL) error = mh_kv_swap(bucket, mh_text("tour/b"), absent, mh_bytes_of(mh_text("x")), &wrong);
    if (error == NULL) error = mh_kv_swap(bucket, mh_text("tour/b"), found, mh_bytes_of(mh_text("x")), &swapped);
    if (error == NULL) error = mh_kv_swap(bucket, mh_text("tour/c"), absent, mh_bytes_of(mh_text("x")), &made);
    if (error == NULL) error = mh_kv_keys(bucket, mh_text("tour/"), &keys);
    if (error == NULL) error = mh_kv_page(bucket, mh_text("tour/"), 2, &cursor, &page);
    if (error != NULL) return error;
    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    mh_write_name(&json, "did");
    mh_write_begin(&json, '[');
    const bool did[] = {added, again, wrong, swapped, made};
    for (size_t at = 0; at < sizeof did; at++) mh_write_bool(&json, did[at]);
    mh_write_end(&json, ']');
    mh_write_name(&json, "keys");
    mh_write_begin(&json, '[');
    for (size_t at = 0; at < keys.len; at++) mh_write_text(&json, keys.items[at]);
    mh_write_end(&json, ']');
    mh_write_name(&json, "cursor");
    mh_write_text(&json, cursor);
    for (size_t at = 0; at < keys.len && error == NULL; at++) error = mh_kv_delete(bucket, keys.items[at]);
    if (error != NULL) return error;
    /* What cannot be done, by its kind. */
    mh_write_name(&json, "reasons");
    mh_write_begin(&json, '[');
    mh_write_integer(&json, mh_reason_of(mh_kv_open("other", &none)));
    mh_write_integer(&json, mh_reason_of(mh_kv_delete(bucket, mh_text("\xff"))));
    mh_write_integer(&json, mh_reason_of(mh_kv_get(bucket, mh_text(""), &found)));
    mh_write_end(&json, ']');
    mh_write_end(&json, '}');
    *response = mh_json_response(&json);
    return NULL;
}

static const mh_error *failure(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)context, (void)output, (void)response;
    mh_bucket bucket;
    return mh_kv_open("other", &bucket);
}

/* What a job runs. */
static const mh_error *fit(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)context, (void)output;
    static const char *const names[] = {"rate"};
    float rate;
    const mh_error *error = mh_numbers(sample, 1, names, &rate);
    if (error != NULL) return error;
    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    mh_write_name(&json, "loss");
    mh_write_float(&json, rate / 2);
    mh_write_name(&json, "kind");
    mh_write_text(&json, sample->content_type);
    mh_write_end(&json, '}');
    *response = mh_json_response(&json);
    return NULL;
}

/* The same job each time that it is asked. */
static const mh_error *sweep(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)context, (void)output;
    mh_submission asked = {
        .path = mh_text("/fit"),
        .content_type = sample->content_type,
        .body = sample->body,
        .attempts = 1,
        .idempotency_key = mh_text("one"),
    };
    mh_job job;
    const mh_error *error = mh_job_submit(&asked, &job);
    if (error != NULL) return error;
    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    mh_write_name(&json, "id");
    mh_write_text(&json, job.id);
    mh_write_name(&json, "attempts");
    mh_write_unsigned(&json, job.attempts);
    mh_write_end(&json, '}');
    *response = mh_json_response(&json);
    return NULL;
}

/* A job, and the answer to it. */
static const mh_error *fitted(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample, (void)output;
    mh_job job;
    mh_response answer;
    mh_str id = mh_path_parameter(context, "id");
    const mh_error *error = mh_job_get(id, &job);
    if (error == NULL) error = mh_job_answer(id, &answer);
    if (error != NULL) return error;
    if (job.id.len == 0) {
        response->status = 404;
        return NULL;
    }
    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    mh_write_name(&json, "state");
    mh_write_text(&json, mh_text(mh_job_state_name(job.state)));
    if (answer.status != 0) {
        const mh_json *read;
        error = mh_json_read(answer.body, &read);
        if (error != NULL) return error;
        mh_write_name(&json, "answer");
        mh_write_begin(&json, '{');
        mh_write_name(&json, "loss");
        mh_write_number(&json, mh_json_get(read, "loss")->number);
        mh_write_name(&json, "kind");
        mh_write_text(&json, mh_json_get(read, "kind")->text);
        mh_write_end(&json, '}');
    }
    mh_write_end(&json, '}');
    *response = mh_json_response(&json);
    return NULL;
}

/* A job that is put off, the same again, another of its key; then the first one is cancelled. */
static const mh_error *jobs(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)output;
    mh_job job, same, cancelled, none;
    mh_response answer;
    mh_submission later = {
        .path = mh_text("/fit"),
        .content_type = mh_text("text/plain"),
        .body = mh_bytes_of(mh_text("never")),
        .priority = MH_PRIORITY_LAST,
        .delay_ms = 3600 * 1000,
        .attempts = 2,
        .idempotency_key = mh_request_id(context),
    };
    const mh_error *error = mh_job_submit(&later, &job);
    if (error == NULL) error = mh_job_submit(&later, &same);
    if (error != NULL) return error;
    later.body = sample->body;
    mh_reason reason = mh_reason_of(mh_job_submit(&later, &none));
    error = mh_job_cancel(job.id, &cancelled);
    if (error == NULL) error = mh_job_answer(job.id, &answer);
    if (error == NULL) error = mh_job_get(mh_text("none"), &none);
    if (error != NULL) return error;
    return text(response, mh_format("%s %u %d %d %s %u %zu", mh_job_state_name(job.state), job.attempts,
                                    mh_equal(job.id, same.id), reason, mh_job_state_name(cancelled.state), answer.status,
                                    none.id.len));
}

enum { PIECE = 100 * 1000 };

/* So many bytes as an object, piece by piece; and one that is given up. */
static const mh_error *page(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)output;
    mh_str name = mh_path_parameter(context, "name");
    mh_container container;
    mh_blob_writer writer, other;
    const mh_json *size;
    const mh_error *error = mh_json_read(sample->body, &size);
    if (error == NULL) error = mh_blob_open("default", &container);
    if (error == NULL) error = mh_blob_write_to(container, mh_text("other"), &other);
    if (error == NULL) error = mh_blob_write(&other, mh_bytes_of(mh_text("never")));
    if (error == NULL) error = mh_blob_write_to(container, name, &writer);
    uint8_t *piece = mh_alloc(PIECE);
    for (size_t at = 0; at < PIECE; at++) piece[at] = (uint8_t)('a' + at % 26);
    for (size_t left = error == NULL ? (size_t)size->number : 0; left > 0 && error == NULL;) {
        size_t len = left < PIECE ? left : PIECE;
        error = mh_blob_write(&writer, (mh_bytes){piece, len});
        left -= len;
    }
    if (error == NULL) error = mh_blob_finish(&writer);
    if (error != NULL) return error;
    mh_text_list names;
    mh_blob_info info;
    error = mh_blob_names(container, SIZE_MAX, &names);
    if (error == NULL) error = mh_blob_look(container, name, &info);
    return error != NULL ? error : text(response, mh_format("%" PRIu64 " bytes, %zu objects", info.size, names.len));
}

/* An object, piece by piece. */
static const mh_error *read_page(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)sample;
    mh_container container;
    mh_blob_reader reader;
    const mh_error *error = mh_blob_open("default", &container);
    if (error == NULL) error = mh_blob_read_from(container, mh_path_parameter(context, "name"), &reader);
    if (error != NULL) return error;
    if (!reader.is_there) {
        text(response, mh_text("no page"));
        response->status = 404;
        return NULL;
    }
    error = mh_begin(output, (mh_response){.content_type = mh_text("text/plain")});
    uint8_t *buffer = mh_alloc(PIECE);
    size_t len = 1;
    while (error == NULL && len > 0) {
        error = mh_blob_read(&reader, buffer, PIECE, &len);
        if (error == NULL && len > 0 && !mh_write(output, (mh_bytes){buffer, len})) break;
    }
    return error;
}

/* An object as a whole, a part of it, and none. */
static const mh_error *whole(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)context, (void)output;
    mh_container container;
    mh_bytes all, part, none;
    const mh_error *error = mh_blob_open("default", &container);
    if (error == NULL) error = mh_blob_set(container, mh_text("whole"), sample->body);
    if (error == NULL) error = mh_blob_get(container, mh_text("whole"), &all);
    if (error == NULL) error = mh_blob_get_range(container, mh_text("whole"), 1, 3, &part);
    if (error == NULL) error = mh_blob_delete(container, mh_text("whole"));
    if (error == NULL) error = mh_blob_get(container, mh_text("whole"), &none);
    if (error != NULL) return error;
    return text(response, mh_format("%.*s %.*s %d", (int)all.len, (const char *)all.data, (int)part.len, (const char *)part.data,
                                    none.data == NULL));
}

static const mh_route routes[] = {
    MH_POST("/visit/{name}", visit, .consumes = "", .summary = "Counts a visit", .produces = "text/plain"),
    MH_GET("/items/{id}", item, .summary = "An item", .produces = "text/plain"),
    MH_PUT("/items/{id}", keep, .consumes = "text/plain"),
    MH_DELETE("/items/{id}", drop, .consumes = ""),
    MH_POST("/tour", tour, .consumes = "text/plain", .output = "{\"type\": \"object\"}", .produces = "application/json"),
    MH_POST("/failure", failure),
    MH_POST("/fit", fit),
    MH_POST("/sweep", sweep),
    MH_GET("/fitted/{id}", fitted),
    MH_POST("/jobs-of-all-kinds", jobs),
    MH_POST("/pages/{name}", page),
    MH_GET("/pages/{name}", read_page),
    MH_POST("/whole", whole),
};
MH_ROUTES(routes)
