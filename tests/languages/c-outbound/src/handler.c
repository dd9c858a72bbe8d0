/* An application that sends what the body of a `POST /` says, and answers with what came of it, as in every
 * language (tests/it/libraries/outbound.rs):
 *
 *     {"do": "get", "url": "http://…", "headers": {"x-a": "b"}, "json": [1], "secret": "…", "attempts": 2,
 *      "pause_ms": 1, "timeout_ms": 500}
 *
 * All but `do` and `url` may be left out. `headers` are not of a webhook, `json` is the body of a post and
 * of a webhook, `secret`, `attempts` and `pause_ms` are of a webhook alone.
 *
 *     get, post, webhook: {"status": 200, "headers": {"content-type": "…"}, "text": "…"}
 *     pieces:             {"status": 200, "pieces": 3, "bytes": 70000}, a get that is read piece by piece
 *     whole:              {"status": 200, "bytes": 70000}, a get that is read as a whole
 *     left:               {"status": 200}, a get of which one piece is read; the rest is left
 *
 * Without a response it is {"error": "denied"}, or prohibited, invalid, timed-out, failed, too-long, or
 * {"error": "status", "status": 404}; with 200 too.
 */
#include <modelhost_app.h>
#include <modelhost_outbound.h>

static mh_str text_of(const mh_json *order, const char *name) {
    const mh_json *found = mh_json_get(order, name);
    return found == NULL ? (mh_str){NULL, 0} : found->text;
}

static uint32_t number_of(const mh_json *order, const char *name) {
    const mh_json *found = mh_json_get(order, name);
    return found == NULL ? 0 : (uint32_t)found->number;
}

static const char *name_of(mh_str name) { return mh_format("%.*s", (int)name.len, name.data).data; }

static void copy(mh_json_writer *json, const mh_json *value) {
    switch (value->kind) {
        case MH_JSON_NULL: mh_write_null(json); return;
        case MH_JSON_BOOL: mh_write_bool(json, value->boolean); return;
        case MH_JSON_NUMBER: mh_write_number(json, value->number); return;
        case MH_JSON_STRING: mh_write_text(json, value->text); return;
        case MH_JSON_ARRAY:
        case MH_JSON_OBJECT: break;
    }
    bool is_object = value->kind == MH_JSON_OBJECT;
    mh_write_begin(json, is_object ? '{' : '[');
    for (const mh_json *each = value->first; each != NULL; each = each->next) {
        if (is_object) mh_write_name(json, name_of(each->name));
        copy(json, each);
    }
    mh_write_end(json, is_object ? '}' : ']');
}

/* The body of a post; none without `json`. */
static mh_bytes json_of(const mh_json *order) {
    const mh_json *found = mh_json_get(order, "json");
    mh_json_writer json = {0};
    if (found == NULL) return (mh_bytes){NULL, 0};
    copy(&json, found);
    return mh_json_response(&json).body;
}

static const mh_error *sent(const mh_json *order, mh_str what, mh_outbound_response *answer) {
    uint32_t timeout_ms = number_of(order, "timeout_ms");
    mh_str url = text_of(order, "url");
    mh_bytes json = json_of(order);
    if (mh_equal(what, mh_text("webhook"))) {
        mh_webhook webhook = {
            .url = url,
            .json = json.len > 0 ? json : mh_bytes_of(mh_text("null")),
            .secret = text_of(order, "secret"),
            .attempts = number_of(order, "attempts"),
            .pause_ms = number_of(order, "pause_ms"),
            .timeout_ms = timeout_ms,
        };
        return mh_webhook_send(&webhook, answer);
    }
    mh_outbound_request request = {.url = url, .timeout_ms = timeout_ms};
    const mh_json *headers = mh_json_get(order, "headers");
    if (headers != NULL) {
        request.headers.items = mh_alloc(headers->len * sizeof *request.headers.items);
        for (const mh_json *each = headers->first; each != NULL; each = each->next) {
            request.headers.items[request.headers.len++] = (mh_header){each->name, each->text};
        }
    }
    static const char *const gets[] = {"get", "pieces", "whole", "left"};
    bool is_get = false;
    for (size_t at = 0; at < sizeof gets / sizeof *gets; at++) is_get = is_get || mh_equal(what, mh_text(gets[at]));
    if (!is_get) {
        if (!mh_equal(what, mh_text("post"))) return mh_invalid("there is no `%.*s`", (int)what.len, what.data);
        request.method = mh_text("POST");
        request.body = json;
        if (json.len > 0) request.content_type = mh_text("application/json");
    }
    return mh_outbound_send(&request, answer);
}

static void write_number(mh_json_writer *json, const char *name, uint64_t value) {
    mh_write_name(json, name);
    mh_write_unsigned(json, value);
}

static const mh_error *done(const mh_json *order, mh_json_writer *json) {
    mh_str what = text_of(order, "do");
    mh_outbound_response answer;
    const mh_error *error = sent(order, what, &answer);
    if (error != NULL) return error;
    mh_bytes body;
    write_number(json, "status", answer.status);
    if (mh_equal(what, mh_text("pieces"))) {
        uint64_t pieces = 0, bytes = 0;
        while ((error = mh_outbound_read(&answer, &body)) == NULL && body.data != NULL) {
            pieces++;
            bytes += body.len;
        }
        write_number(json, "pieces", pieces);
        write_number(json, "bytes", bytes);
        return error;
    }
    if (mh_equal(what, mh_text("left"))) return mh_outbound_read(&answer, &body);
    error = mh_outbound_read_whole(&answer, &body);
    if (error != NULL) return error;
    if (mh_equal(what, mh_text("whole"))) {
        write_number(json, "bytes", body.len);
        return NULL;
    }
    mh_write_name(json, "headers");
    mh_write_begin(json, '{');
    for (size_t at = 0; at < answer.headers.len; at++) {
        mh_write_name(json, name_of(answer.headers.items[at].name));
        mh_write_text(json, answer.headers.items[at].value);
    }
    mh_write_end(json, '}');
    mh_write_name(json, "text");
    mh_write_text(json, mh_text_of(body));
    return NULL;
}

static const char *kind_of(const mh_error *error) {
    switch (mh_reason_of(error)) {
        case MH_REASON_DENIED: return "denied";
        case MH_REASON_PROHIBITED: return "prohibited";
        case MH_REASON_INVALID: return "invalid";
        case MH_REASON_TIMED_OUT: return "timed-out";
        case MH_REASON_FAILED: return "failed";
        case MH_REASON_STATUS: return "status";
        case MH_REASON_TOO_LONG: return "too-long";
        default: return NULL;
    }
}

static const mh_error *serve(const mh_sample *sample, const mh_context *context, mh_output *output, mh_response *response) {
    (void)context, (void)output;
    const mh_json *order;
    const mh_error *error = mh_json_read(sample->body, &order);
    if (error != NULL) return error;
    mh_json_writer json = {0};
    mh_write_begin(&json, '{');
    error = done(order, &json);
    if (error != NULL) {
        const char *kind = kind_of(error);
        /* The order itself is wrong. */
        if (kind == NULL) return error;
        json = (mh_json_writer){0};
        mh_write_begin(&json, '{');
        mh_write_name(&json, "error");
        mh_write_text(&json, mh_text(kind));
        if (mh_status_of(error) != 0) write_number(&json, "status", mh_status_of(error));
    }
    mh_write_end(&json, '}');
    *response = mh_json_response(&json);
    return NULL;
}
MH_RESPOND(serve)
