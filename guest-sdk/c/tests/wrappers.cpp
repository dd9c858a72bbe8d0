/* Unit tests of values, metrics, jobs, objects, requests to others, sockets and batches in C++. */
#include "check.h"
#include "modelhost_batch.hpp"
#include "modelhost_blobs.hpp"
#include "modelhost_jobs.hpp"
#include "modelhost_kv.hpp"
#include "modelhost_metrics.hpp"
#include "modelhost_outbound.hpp"
#include "modelhost_socket.hpp"

using namespace std::chrono_literals;
using namespace std::string_view_literals;

static void values_are_kept() {
    const mh::bucket bucket = mh::bucket::open().value();
    check(bucket.get("a").value() == std::nullopt && bucket.set("a", "\0x"sv, 1h).has_value(), "a value is set");
    check(bucket.get("a").value() == "\0x"sv, "it has all its bytes");
    check(!bucket.add("a", "").value() && bucket.add("b", "").value(), "only what is not there is added");
    check(!bucket.swap("b", std::nullopt, "x").value() && bucket.swap("b", std::string_view(), "x").value(), "a swap");
    check(bucket.increment("n").value() == 1 && bucket.increment("n", -3).value() == -2, "a number");
    check(bucket.keys().value() == std::vector{"a"sv, "b"sv, "n"sv} && bucket.keys("n").value().size() == 1, "keys");
    check(bucket.remove("a").has_value() && !bucket.get("a").value(), "it is gone");
    check(bucket.get("").error().reason() == MH_REASON_INVALID, "why it has failed");
}

static constexpr double bounds[] = {1, 10};
static constinit mh::counter flowers("flowers", "Flowers by species", {"species"});
static constinit mh::gauge age("age_seconds", "");
static constinit mh::histogram words("words", "", {}, bounds);

static bool has(const char *name, double expected, mh_text_list labels = {}) {
    double value = 0;
    return mh_metric_value(name, labels, &value) && value == expected;
}

static void metrics_are_made() {
    check(flowers.add(1, {"setosa"}) && flowers.add(2.5, {"setosa"sv}), "a counter");
    const mh_str labels[] = {mh_text("species"), mh_text("setosa")};
    check(has("flowers_total", 3.5, {labels, 2}), "it has the sum");
    check(age.set(12) && age.add(-2) && has("age_seconds", 10), "a gauge");
    check(words.observe(3) && words.observe(5) && has("words_sum", 8) && has("words_count", 2), "a histogram");
    check(flowers.add().error().reason() == MH_REASON_INVALID && !flowers.add(-1, {"setosa"}), "why it has failed");
}

static void jobs_are_submitted() {
    const std::pair<std::string_view, std::string_view> headers[] = {{"x-of", "7"}};
    const mh::submission asked = {
        .path = "/train", .content_type = "text/plain", .headers = headers, .body = "a", .delay = 2s, .idempotency_key = "k"};
    const mh::job job = mh::submit_job(asked).value();
    const mh_submission *stored = mh_job_submission(0);
    check(mh::view(stored->path) == "/train" && mh::view(stored->body) == "a" && stored->headers.len == 2, "a job");
    check(stored->delay_ms == 2000 && stored->webhook.data == nullptr, "its time");
    check(mh::view(mh::submit_job(asked)->id) == mh::view(job.id), "the same");
    check(!mh::get_job("none").value() && mh::get_job(mh::view(job.id)).value()->state == MH_JOB_QUEUED, "jobs");
    check(!mh::job_answer(mh::view(job.id)).value(), "no answer yet");
    mh_job_finish(job.id, mh_text_response(mh_text("done")));
    check(mh::view(mh::job_answer(mh::view(job.id)).value()->body) == "done", "its answer");
    check(mh::cancel_job(mh::view(job.id)).value()->state == MH_JOB_COMPLETED, "it is over");
}

static void objects_are_kept() {
    const mh::container container = mh::container::open().value();
    check(!container.get("a").value() && container.set("a", "0123456789").has_value(), "an object is set");
    check(container.get("a").value() == "0123456789" && container.get("a", 2, 4).value() == "23", "it is read");
    {
        mh::blob_writer writer = container.writer("b").value(), given_up = container.writer("c").value();
        check(writer.write("one ").has_value() && writer.write("two").has_value(), "pieces");
        check(given_up.write("x").has_value() && writer.finish().has_value() && !writer.finish(), "one is finished");
    }
    check(container.names().value().size() == 2 && container.info("b").value()->size == 7, "nothing is left of the other");
    std::uint8_t buffer[5];
    mh::blob_reader reader = *container.reader("b").value();
    check(reader.size() == 7 && reader.read(buffer).value().size() == 5, "a piece");
    check(reader.read(buffer).value().size() == 2 && reader.read(buffer).value().empty(), "the end");
    check(!container.reader("c").value() && container.remove("a").has_value(), "no object");
    check(container.clear().has_value() && container.names(1).value().empty(), "none is left");
    check(container.set("", "").error().text() == "a name of 0 bytes, expected 1 to 512", "why it has failed");
}

static const mh_error *answered(const mh_outbound_request *request, mh_response *response) {
    if (mh::view(request->url) == "https://denied") return mh_outbound_error(MH_REASON_DENIED, {});
    *response = mh_text_response(mh::text(std::format("[{}]", mh::view(request->method))));
    if (request->body.len > 0) response->body = request->body;
    if (request->timeout_ms == 1) response->status = 404;
    return nullptr;
}

static void requests_are_answered() {
    mh_outbound_answer_with(answered);
    {
        auto left = mh::send_request({.url = "https://a"});
        auto answer = mh::send_request({.url = "https://a"});
        check(answer->status() == 200 && answer->headers().size() == 1, "a response");
        check(answer->header("Content-Type") == "text/plain; charset=utf-8" && !answer->header("x"), "its headers");
        check(answer->read().value() == "[GET]" && !answer->read().value(), "its body");
        const std::pair<std::string_view, std::string_view> headers[] = {{"x-of", "7"}};
        answer = mh::send_request(
            {.method = "PUT", .url = "https://a", .content_type = "text/plain", .headers = headers, .body = "[1]", .timeout = 2s});
        check(answer->json()->elements().size() == 1, "JSON");
        answer = mh::send_request({.url = "https://a"});
        check(answer->json().error().reason() == MH_REASON_FAILED, "no JSON");
        mh::json_writer json;
        json.begin('[').value(1).end(']');
        answer = mh::send_webhook({.url = "https://a", .secret = "s", .attempts = 2, .pause = 1ms}, json);
        check(answer->bytes().value() == "[1]", "a webhook");
        check(mh::send_webhook({.url = "https://a", .timeout = 0s}, "1")->status() == 200, "the usual time");
        check(mh::send_webhook({.url = "https://a", .secret = ""}, "1").error().text() == "the secret is empty", "a secret");
        check(mh::send_request({.url = "https://a", .timeout = -1s}).error().reason() == MH_REASON_INVALID, "a time");
        const mh::error gone = mh::send_webhook({.url = "https://a", .timeout = 1ms}, "1").error();
        check(gone.reason() == MH_REASON_STATUS && gone.status() == 404, "another status");
        check(mh::send_request({.url = "https://denied"}).error().reason() == MH_REASON_DENIED, "not listed");
        check(left->status() == 200, "it is open still");
    }
    mh_call_over();
}

static mh::result<void> talk(mh::upgrade &upgrade, const mh::context &) {
    check(upgrade.protocols() == std::vector{"soft"sv, "loud"sv} && !upgrade.offers("lou"),
          "what is offered");
    auto opened = upgrade.accept("loud");
    if (!opened) return std::unexpected(opened.error());
    mh::socket socket = std::move(*opened);
    check(!upgrade.accept() && !upgrade.refuse({}), "it is answered once");
    check(socket.receive(-1ms).error() == mh::no_message::timed_out, "nothing comes in time");
    check(socket.receive(24h * 365).error() == mh::no_message::timed_out, "nor in a year");
    while (auto message = socket.receive()) {
        if (message->is_text && message->data == "fail") return mh::internal("as asked");
        check(socket.send(*message).value() && !socket.closed(), "it is open");
    }
    mh::json_writer json;
    check(!socket.send_json(json.begin('[').end(']')).value(), "it is closed");
    check(!socket.close(1005) && socket.closed()->code == 1000 && socket.closed()->reason == "",
          "by the client");
    check(socket.close(4000, "late").has_value() && socket.closed()->code == 1000, "the first close counts");
    return {};
}

static mh::result<void> refusing(mh::upgrade &upgrade, const mh::context &) {
    check(upgrade.accept("chat").error().text() == "the client offers no subprotocol `chat`",
          "it is not offered");
    return mh::invalid("no {}", "room");
}

static void sockets_talk() {
    const mh_str offers[] = {mh::raw("soft"), mh::raw("loud")};
    const mh_message nothing = {MH_MESSAGE_NONE, {}};
    const mh_message says[] = {
        nothing, nothing, {MH_MESSAGE_TEXT, mh::raw_bytes("a")}, {MH_MESSAGE_BINARY, mh::raw_bytes("\0x"sv)},
        {MH_MESSAGE_TEXT, mh::raw_bytes("fail")}};
    mh_conversation said = mh_converse(mh::websocket_of<talk>, {offers, 2}, says, 4);
    check(said.len == 2 && mh::view(said.sent[0].data) == "a" && mh::view(said.sent[1].data) == "\0x"sv,
          "messages");
    check(said.sent[1].kind == MH_MESSAGE_BINARY && mh::view(said.protocol) == "loud", "as they were");
    check(said.error.data == nullptr && said.close.code == 0, "and no more");
    said = mh_converse(mh::websocket_of<talk>, {offers, 2}, says, 5);
    check(mh::view(said.error) == "as asked", "an error");
    said = mh_converse(mh::websocket_of<refusing>, {nullptr, 0}, nullptr, 0);
    check(said.refusal.status == 0 && mh::view(said.error) == "no room", "what was answered is answered");
}

static mh::result<mh::response> length(const mh::sample &sample, std::size_t count) {
    if (sample.text().empty()) return mh::invalid("no body");
    return mh_text_response(mh::text(std::format("{} of {}", sample.text().size(), count)));
}

static mh::result<void> lengths(std::span<mh::member> members) {
    for (mh::member &member : members) member.answer(length(member.sample(), members.size()));
    if (members.size() == 1) return mh::internal("all of them");
    return {};
}

static void requests_are_served_together() {
    mh_member members[3] = {};
    members[0].sample.body = mh::raw_bytes("abc");
    members[2].sample.body = mh::raw_bytes("z");
    check(mh::batch_of<lengths>(members, 3) == nullptr, "a batch");
    check(members[0].error == nullptr && mh::view(members[0].response.body) == "3 of 3", "an answer");
    check(mh::view(mh_error_text(members[1].error)) == "no body" && members[2].error == nullptr, "one error");
    check(mh::view(mh_error_text(mh::batch_of<lengths>(members, 1))) == "all of them", "an error of all");
}

int main() {
    values_are_kept();
    metrics_are_made();
    jobs_are_submitted();
    objects_are_kept();
    requests_are_answered();
    sockets_talk();
    requests_are_served_together();
    mh_call_over();
    mh_conversations_forget();
    mh_kv_forget();
    mh_metrics_forget();
    mh_jobs_forget();
    mh_blobs_forget();
}
