/* Unit tests of values, jobs and objects in C++. */
#include "check.h"
#include "modelhost_blobs.hpp"
#include "modelhost_jobs.hpp"
#include "modelhost_kv.hpp"

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

int main() {
    values_are_kept();
    jobs_are_submitted();
    objects_are_kept();
    mh_call_over();
    mh_kv_forget();
    mh_jobs_forget();
    mh_blobs_forget();
}
