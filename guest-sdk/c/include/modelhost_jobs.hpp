/* Jobs of the handler's own endpoint, in C++: modelhost_jobs.h with types. What functions give lasts until
 * the call is over. */
#ifndef MODELHOST_JOBS_HPP
#define MODELHOST_JOBS_HPP

#include <modelhost.hpp>
#include <modelhost_jobs.h>

#include <chrono>

namespace mh {

using job = mh_job;

/* A job that is to be stored: submit_job({.path = "/train", .content_type = "application/json", .body =
 * "[1]"}). */
struct submission {
    /* Below the endpoint's own path, with the query. */
    std::string_view path = "/";
    std::string_view content_type = {};
    std::span<const std::pair<std::string_view, std::string_view>> headers = {};
    std::string_view body = {};
    /* MH_PRIORITY_FIRST, MH_PRIORITY_LAST, or between them. */
    std::uint8_t priority = MH_PRIORITY_NORMAL;
    /* Not before this time is over. */
    std::chrono::milliseconds delay = {};
    /* Fails if its first attempt has not begun after this time; 0 for any. */
    std::chrono::milliseconds wait = {};
    /* 0 for as many as `limits.job_attempts`. */
    std::uint32_t attempts = 0;
    /* A URL that gets the result, at a place that `allow_outbound` lists. */
    std::optional<std::string> webhook = {};
    /* A second submission with the same key is the same job. */
    std::optional<std::string> idempotency_key = {};
};

/* Stores a job, and gives it when it is stored. */
inline result<job> submit_job(const submission &asked) {
    std::vector<mh_header> headers;
    for (const auto &[name, value] : asked.headers) headers.push_back({raw(name), raw(value)});
    mh_submission given = {};
    given.path = raw(asked.path);
    given.content_type = raw(asked.content_type);
    given.headers = {headers.data(), headers.size()};
    given.body = raw_bytes(asked.body);
    given.priority = asked.priority;
    given.delay_ms = static_cast<std::uint64_t>(asked.delay.count());
    given.wait_ms = static_cast<std::uint64_t>(asked.wait.count());
    given.attempts = asked.attempts;
    if (asked.webhook) given.webhook = raw(*asked.webhook);
    if (asked.idempotency_key) given.idempotency_key = raw(*asked.idempotency_key);
    job stored = {};
    const mh_error *failed = mh_job_submit(&given, &stored);
    return done(failed, stored);
}

/* A job by its id, if there is one. */
inline result<std::optional<job>> get_job(std::string_view id) {
    job found = {};
    const mh_error *failed = mh_job_get(raw(id), &found);
    return done(failed, found.id.len == 0 ? std::nullopt : std::optional(found));
}

/* The answer to a job, once it has one. */
inline result<std::optional<response>> job_answer(std::string_view id) {
    response answer = {};
    const mh_error *failed = mh_job_answer(raw(id), &answer);
    return done(failed, answer.status == 0 ? std::nullopt : std::optional(answer));
}

/* Cancels a job, whose run is stopped, and gives it; one that is finished stays as it is. */
inline result<std::optional<job>> cancel_job(std::string_view id) {
    job found = {};
    const mh_error *failed = mh_job_cancel(raw(id), &found);
    return done(failed, found.id.len == 0 ? std::nullopt : std::optional(found));
}

}  // namespace mh

#endif
