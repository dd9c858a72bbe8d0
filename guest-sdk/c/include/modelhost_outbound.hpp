/* Requests to other servers, in C++: modelhost_outbound.h with types.
 *
 *     auto answer = mh::send_request({.url = "https://labels.example.com/v1"});
 *     if (!answer) return std::unexpected(answer.error());
 *     auto labels = answer->json();
 *
 * What functions give lasts until the call is over, but for a piece of a body. Responses close themselves.
 */
#ifndef MODELHOST_OUTBOUND_HPP
#define MODELHOST_OUTBOUND_HPP

#include <modelhost.hpp>
#include <modelhost_outbound.h>

#include <chrono>

namespace mh {

/* A request that is to be sent. */
struct outbound_request {
    /* In capitals. */
    std::string_view method = "GET";
    /* With scheme and host. */
    std::string_view url = {};
    std::string_view content_type = {};
    /* Further ones. */
    std::span<const std::pair<std::string_view, std::string_view>> headers = {};
    std::string_view body = {};
    /* Most time to the head of the response, and between two pieces of its body; 0 for 30 s. The host waits
     * 60 s at most, and 10 s to connect. */
    std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

/* The response of another server; its body is read as it comes. */
class outbound_response {
public:
    explicit outbound_response(mh_outbound_response raw) : raw_(raw) {}
    outbound_response(outbound_response &&other) noexcept : raw_(std::exchange(other.raw_, {})) {}
    outbound_response &operator=(outbound_response &&other) noexcept { return std::swap(raw_, other.raw_), *this; }
    ~outbound_response() { mh_outbound_close(&raw_); }

    std::uint16_t status() const { return raw_.status; }
    /* Names in lower case; values that are no text are left out. */
    std::span<const mh_header> headers() const { return {raw_.headers.items, raw_.headers.len}; }
    /* The first header of this name, in any case. */
    std::optional<std::string_view> header(const char *name) const {
        mh_str value = {};
        return mh_outbound_header(&raw_, name, &value) ? std::optional(view(value)) : std::nullopt;
    }

    /* The next piece of the body, which lasts until the next one is read, or the response goes; none at the
     * end. */
    result<std::optional<std::string_view>> read() {
        mh_bytes piece = {};
        const mh_error *failed = mh_outbound_read(&raw_, &piece);
        return done(failed, piece.data == nullptr ? std::nullopt : std::optional(view(piece)));
    }
    /* The rest of the body, of 16 MiB at most. */
    result<std::string_view> bytes() {
        mh_bytes content = {};
        const mh_error *failed = mh_outbound_read_whole(&raw_, &content);
        return done(failed, view(content));
    }
    /* The same as JSON; MH_REASON_FAILED if it is none. */
    result<mh::json> json() {
        auto content = bytes();
        if (!content) return std::unexpected(content.error());
        auto read = mh::json::read(*content);
        if (read) return read;
        const std::string why = std::format("its json: {}", read.error().text());
        return std::unexpected(error{mh_outbound_error(MH_REASON_FAILED, raw(why))});
    }

private:
    mh_outbound_response raw_;
};

/* An error if a time is below 0, for which C has no sign; else NULL. */
inline const mh_error *negative(std::chrono::milliseconds time) {
    return time.count() < 0 ? mh_outbound_error(MH_REASON_INVALID, mh_text("a time below 0")) : nullptr;
}
/* 0 stands for the usual time. */
inline std::uint32_t raw_time(std::chrono::milliseconds time) {
    constexpr std::chrono::milliseconds most{UINT32_MAX};
    return static_cast<std::uint32_t>((time > most ? most : time).count());
}

/* What one of C's functions gets for this. */
template <typename Given>
result<outbound_response> sent(const mh_error *(*send)(const Given *, mh_outbound_response *), const Given &given) {
    mh_outbound_response answer = {};
    if (const mh_error *failed = send(&given, &answer)) return std::unexpected(error{failed});
    return outbound_response(answer);
}

/* Sends a request and waits for the head of the response, of any status. No redirect is followed. */
inline result<outbound_response> send_request(const outbound_request &asked) {
    if (const mh_error *wrong = negative(asked.timeout)) return std::unexpected(error{wrong});
    std::vector<mh_header> headers;
    for (const auto &[name, value] : asked.headers) headers.push_back({raw(name), raw(value)});
    mh_outbound_request given = {};
    given.method = raw(asked.method);
    given.url = raw(asked.url);
    given.content_type = raw(asked.content_type);
    given.headers = {headers.data(), headers.size()};
    given.body = raw_bytes(asked.body);
    given.timeout_ms = raw_time(asked.timeout);
    return sent(mh_outbound_send, given);
}

/* A `POST` of JSON to one receiver. With a secret it is signed as Standard Webhooks says
 * (https://www.standardwebhooks.com). */
struct webhook {
    std::string_view url = {};
    /* `whsec_` and base64, or any other text, whose bytes are the secret then; none for no signature. An empty
     * one is MH_REASON_INVALID: its signature could be forged. */
    std::optional<std::string_view> secret = {};
    /* The most attempts. The next one follows if there was no response, or 408, 429 or a 5xx. */
    std::uint32_t attempts = 1;
    /* Between the first two attempts; 0 for 1 s. Each pause is twice the one before, a fifth more or less by
     * chance; seconds that the receiver says in `retry-after` win. None is longer than a minute. */
    std::chrono::milliseconds pause = std::chrono::seconds(1);
    /* Of an attempt, as for a request. */
    std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

/* Sends JSON; the response is a 2xx, or the error has MH_REASON_STATUS. */
inline result<outbound_response> send_webhook(const webhook &to, std::string_view json) {
    for (const auto time : {to.pause, to.timeout}) {
        if (const mh_error *wrong = negative(time)) return std::unexpected(error{wrong});
    }
    mh_webhook given = {};
    given.url = raw(to.url);
    given.json = raw_bytes(json);
    /* An empty one has a place all the same. */
    if (to.secret) given.secret = to.secret->empty() ? mh_text("") : raw(*to.secret);
    given.attempts = to.attempts;
    given.pause_ms = raw_time(to.pause);
    given.timeout_ms = raw_time(to.timeout);
    return sent(mh_webhook_send, given);
}
/* The same of what a writer has written. */
inline result<outbound_response> send_webhook(const webhook &to, const json_writer &written) {
    return send_webhook(to, view(written.response().body));
}

}  // namespace mh

#endif
