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
#include <modelhost_app.hpp>
#include <modelhost_outbound.hpp>

namespace {

using milliseconds = std::chrono::milliseconds;

std::string_view text_of(const mh::json &order, const char *name) {
    auto found = order.get(name);
    return found ? found->string().value_or("") : "";
}

std::optional<std::uint32_t> number_of(const mh::json &order, const char *name) {
    auto found = order.get(name);
    return found ? std::optional(static_cast<std::uint32_t>(found->number().value_or(0))) : std::nullopt;
}

/* The members of an object, with their names. */
std::vector<std::pair<std::string_view, std::string_view>> texts_of(const mh_json *object) {
    std::vector<std::pair<std::string_view, std::string_view>> found;
    for (const mh_json *each = object == nullptr ? nullptr : object->first; each != nullptr; each = each->next) {
        found.emplace_back(mh::view(each->name), mh::view(each->text));
    }
    return found;
}

void copy(mh::json_writer &json, const mh_json *value) {
    const bool is_object = value->kind == MH_JSON_OBJECT;
    switch (value->kind) {
        case MH_JSON_NULL: mh_write_null(json.raw()); return;
        case MH_JSON_BOOL: json.value(value->boolean); return;
        case MH_JSON_NUMBER: json.value(value->number); return;
        case MH_JSON_STRING: json.value(mh::view(value->text)); return;
        case MH_JSON_ARRAY:
        case MH_JSON_OBJECT: break;
    }
    json.begin(is_object ? '{' : '[');
    for (const mh_json *each = value->first; each != nullptr; each = each->next) {
        if (is_object) json.name(std::string(mh::view(each->name)).c_str());
        copy(json, each);
    }
    json.end(is_object ? '}' : ']');
}

mh::result<mh::outbound_response> sent(const mh_json *raw, const mh::json &order) {
    const std::string_view what = text_of(order, "do"), url = text_of(order, "url");
    const milliseconds timeout(number_of(order, "timeout_ms").value_or(30'000));
    const mh_json *given = mh_json_get(raw, "json");
    mh::json_writer json;
    if (given != nullptr) copy(json, given);
    if (what == "webhook") {
        const mh::webhook to = {
            .url = url,
            .secret = order.get("secret") ? std::optional(text_of(order, "secret")) : std::nullopt,
            .attempts = number_of(order, "attempts").value_or(1),
            .pause = milliseconds(number_of(order, "pause_ms").value_or(1'000)),
            .timeout = timeout,
        };
        return given == nullptr ? mh::send_webhook(to, "null") : mh::send_webhook(to, json);
    }
    const auto headers = texts_of(mh_json_get(raw, "headers"));
    mh::outbound_request request = {.url = url, .headers = headers, .timeout = timeout};
    const mh_response body = json.response();
    if (what != "get" && what != "pieces" && what != "whole" && what != "left") {
        if (what != "post") return mh::invalid("there is no `{}`", what);
        request.method = "POST";
        request.body = mh::view(body.body);
        if (given != nullptr) request.content_type = "application/json";
    }
    return mh::send_request(request);
}

mh::result<mh::json_writer> done(const mh_json *raw) {
    const mh::json order(raw);
    const std::string_view what = text_of(order, "do");
    auto answer = sent(raw, order);
    if (!answer) return std::unexpected(answer.error());
    mh::json_writer json;
    json.begin('{').name("status").value(answer->status());
    if (what == "pieces" || what == "left") {
        std::uint64_t pieces = 0, bytes = 0;
        auto piece = answer->read();
        for (; piece && *piece; piece = answer->read()) {
            pieces++;
            bytes += (*piece)->size();
            if (what == "left") break;
        }
        if (!piece) return std::unexpected(piece.error());
        if (what == "pieces") json.name("pieces").value(pieces).name("bytes").value(bytes);
        json.end('}');
        return json;
    }
    auto body = answer->bytes();
    if (!body) return std::unexpected(body.error());
    if (what == "whole") {
        json.name("bytes").value(body->size()).end('}');
        return json;
    }
    json.name("headers").begin('{');
    for (const mh_header &each : answer->headers()) {
        json.name(std::string(mh::view(each.name)).c_str()).value(mh::view(each.value));
    }
    json.end('}').name("text").value(*body).end('}');
    return json;
}

const char *kind_of(const mh::error &error) {
    switch (error.reason()) {
        case MH_REASON_DENIED: return "denied";
        case MH_REASON_PROHIBITED: return "prohibited";
        case MH_REASON_INVALID: return "invalid";
        case MH_REASON_TIMED_OUT: return "timed-out";
        case MH_REASON_FAILED: return "failed";
        case MH_REASON_STATUS: return "status";
        case MH_REASON_TOO_LONG: return "too-long";
        default: return nullptr;
    }
}

mh::result<std::optional<mh::response>> serve(const mh::sample &sample, const mh::context &, mh::output &) {
    const mh_json *order = nullptr;
    const mh_error *malformed = mh_json_read(mh::raw_bytes(sample.text()), &order);
    if (malformed != nullptr) return std::unexpected(mh::error{malformed});
    auto json = done(order);
    if (json) return json->response();
    const char *kind = kind_of(json.error());
    if (kind == nullptr) return std::unexpected(json.error());
    mh::json_writer failure;
    failure.begin('{').name("error").value(kind);
    if (json.error().status() != 0) failure.name("status").value(json.error().status());
    return failure.end('}').response();
}

}  // namespace

MODELHOST_RESPOND(serve)
