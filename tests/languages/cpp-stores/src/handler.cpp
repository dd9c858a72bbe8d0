/* An application that keeps values and objects and submits jobs, by routes. */
#include <modelhost_blobs.hpp>
#include <modelhost_jobs.hpp>
#include <modelhost_kv.hpp>
#include <modelhost_router.hpp>

using namespace std::chrono_literals;

namespace {

/* Leaves a bucket open, which is closed when it returns: what it keeps in memory is part of the component. */
mh::result<void> load(std::string_view) {
    auto bucket = mh::bucket::open();
    if (!bucket) return std::unexpected(bucket.error());
    return {};
}

mh::response text(std::string_view text) { return mh_text_response(mh::text(text)); }

mh::result<mh::response> visit(const mh::sample &, const mh::context &context) {
    auto count = mh::bucket::open().and_then([&](auto it) { return it.increment(context.path_parameter("name")); });
    if (!count) return std::unexpected(count.error());
    return text(std::format("visit {}", *count));
}

mh::result<mh::response> item(const mh::sample &, const mh::context &context) {
    auto found = mh::bucket::open().and_then([&](auto it) { return it.get(context.path_parameter("id")); });
    if (!found) return std::unexpected(found.error());
    mh::response answer = text(found->value_or("none"));
    if (!*found) answer.status = 404;
    return answer;
}

mh::response empty(std::uint16_t status) {
    mh::response answer = {};
    answer.status = status;
    return answer;
}

mh::result<mh::response> keep(const mh::sample &sample, const mh::context &context) {
    auto set = mh::bucket::open().and_then([&](auto it) { return it.set(context.path_parameter("id"), sample.text(), 60s); });
    return set.transform([] { return empty(204); });
}

mh::result<mh::response> drop(const mh::sample &, const mh::context &context) {
    auto removed = mh::bucket::open().and_then([&](auto it) { return it.remove(context.path_parameter("id")); });
    return removed.transform([] { return empty(204); });
}

/* Each function of a bucket, and what it says. */
mh::result<mh::response> tour(const mh::sample &sample, const mh::context &) {
    auto opened = mh::bucket::open();
    if (!opened) return std::unexpected(opened.error());
    const mh::bucket bucket = *opened;
    auto set = bucket.set("tour/a", sample.text(), 60s);
    if (!set) return std::unexpected(set.error());
    auto added = bucket.add("tour/b", ""), again = bucket.add("tour/b", "x");
    auto found = bucket.get("tour/b");
    if (!found) return std::unexpected(found.error());
    auto wrong = bucket.swap("tour/b", std::nullopt, "x"), swapped = bucket.swap("tour/b", *found, "x");
    auto made = bucket.swap("tour/c", std::nullopt, "x");
    auto keys = bucket.keys("tour/");
    if (!keys) return std::unexpected(keys.error());
    mh::json_writer json;
    json.begin('{').name("did").begin('[');
    for (const auto &did : {added, again, wrong, swapped, made}) json.value(did.value_or(false));
    json.end(']').name("keys").begin('[');
    for (std::string_view key : *keys) {
        json.value(key);
        auto removed = bucket.remove(key);
        if (!removed) return std::unexpected(removed.error());
    }
    json.end(']').name("cursor").value("tour/b").name("reasons").begin('[');
    json.value(static_cast<int>(mh::bucket::open("other").error().reason()));
    json.value(static_cast<int>(bucket.remove("\xff").error().reason()));
    json.value(static_cast<int>(bucket.get("").error().reason()));
    return json.end(']').end('}').response();
}

mh::result<mh::response> failure(const mh::sample &, const mh::context &) {
    auto bucket = mh::bucket::open("other");
    return std::unexpected(bucket.error());
}

/* What a job runs. */
mh::result<std::optional<mh::response>> fit(const mh::sample &sample, const mh::context &, mh::output &output) {
    static const char *const names[] = {"rate"};
    auto rate = sample.numbers(names);
    if (!rate) return std::unexpected(rate.error());
    mh::json_writer json;
    json.begin('{').name("loss").value((*rate)[0] / 2).name("kind").value(sample.content_type()).end('}');
    auto sent = output.send(json.response());
    if (!sent) return std::unexpected(sent.error());
    return std::nullopt;
}

/* The same job each time that it is asked. */
mh::result<mh::response> sweep(const mh::sample &sample, const mh::context &) {
    auto job = mh::submit_job({
        .path = "/fit",
        .content_type = sample.content_type(),
        .body = sample.text(),
        .attempts = 1,
        .idempotency_key = "one",
    });
    if (!job) return std::unexpected(job.error());
    mh::json_writer json;
    return json.begin('{').name("id").value(mh::view(job->id)).name("attempts").value(job->attempts).end('}').response();
}

/* A job, and the answer to it. */
mh::result<mh::response> fitted(const mh::sample &, const mh::context &context) {
    const std::string_view id = context.path_parameter("id");
    auto job = mh::get_job(id);
    auto answer = mh::job_answer(id);
    if (!job || !answer) return mh::internal("no jobs");
    if (!*job) return empty(404);
    mh::json_writer json;
    json.begin('{').name("state").value(mh_job_state_name((*job)->state));
    if (*answer) {
        auto read = mh::json::read(mh::view((*answer)->body));
        if (!read) return std::unexpected(read.error());
        json.name("answer").begin('{').name("loss").value(read->get("loss")->number().value());
        json.name("kind").value(read->get("kind")->string().value()).end('}');
    }
    return json.end('}').response();
}

/* A job that is put off, the same again, another of its key; then the first one is cancelled. */
mh::result<mh::response> jobs(const mh::sample &sample, const mh::context &context) {
    mh::submission later = {
        .path = "/fit",
        .content_type = "text/plain",
        .body = "never",
        .priority = MH_PRIORITY_LAST,
        .delay = 1h,
        .attempts = 2,
        .idempotency_key = std::string(context.request_id()),
    };
    auto job = mh::submit_job(later), same = mh::submit_job(later);
    if (!job || !same) return std::unexpected(job.error());
    later.body = sample.text();
    auto other = mh::submit_job(later);
    auto cancelled = mh::cancel_job(mh::view(job->id));
    auto answer = mh::job_answer(mh::view(job->id));
    auto none = mh::get_job("none");
    if (!cancelled || !*cancelled || !answer || !none) return mh::internal("not as it was meant");
    return text(std::format("{} {} {} {} {} {} {}", mh_job_state_name(job->state), job->attempts,
                            static_cast<int>(mh::view(job->id) == mh::view(same->id)), static_cast<int>(other.error().reason()),
                            mh_job_state_name((*cancelled)->state), answer->has_value() ? 1 : 0, none->has_value() ? 1 : 0));
}

/* So many bytes as an object, piece by piece; and one that is given up. */
mh::result<mh::response> page(const mh::sample &sample, const mh::context &context) {
    const std::string_view name = context.path_parameter("name");
    auto size = sample.json();
    if (!size) return std::unexpected(size.error());
    auto container = mh::container::open();
    if (!container) return std::unexpected(container.error());
    auto other = container->writer("other"), writer = container->writer(name);
    if (!other || !writer) return mh::internal("no writers");
    auto done = other->write("never");
    std::string piece(100'000, ' ');
    for (std::size_t at = 0; at < piece.size(); at++) piece[at] = static_cast<char>('a' + at % 26);
    for (std::size_t left = static_cast<std::size_t>(size->number().value_or(0)); left > 0 && done;) {
        const std::string_view next = std::string_view(piece).substr(0, left);
        done = writer->write(next);
        left -= next.size();
    }
    if (done) done = writer->finish();
    if (!done) return std::unexpected(done.error());
    auto names = container->names();
    auto info = container->info(name);
    if (!names || !info || !*info) return mh::internal("not as it was meant");
    return text(std::format("{} bytes, {} objects", (*info)->size, names->size()));
}

/* An object, piece by piece. */
mh::result<std::optional<mh::response>> read_page(const mh::sample &, const mh::context &context, mh::output &output) {
    auto container = mh::container::open();
    if (!container) return std::unexpected(container.error());
    auto reader = container->reader(context.path_parameter("name"));
    if (!reader) return std::unexpected(reader.error());
    if (!*reader) {
        mh::response none = text("no page");
        none.status = 404;
        return none;
    }
    mh::response head = {};
    head.content_type = mh_text("text/plain");
    auto begun = output.begin(head);
    if (!begun) return std::unexpected(begun.error());
    std::vector<std::uint8_t> buffer(100'000);
    for (;;) {
        auto piece = (*reader)->read(buffer);
        if (!piece) return std::unexpected(piece.error());
        if (piece->empty() || !output.write({reinterpret_cast<const char *>(piece->data()), piece->size()})) return std::nullopt;
    }
}

/* An object as a whole, a part of it, and none. */
mh::result<mh::response> whole(const mh::sample &sample, const mh::context &) {
    auto container = mh::container::open();
    if (!container) return std::unexpected(container.error());
    auto set = container->set("whole", sample.text());
    if (!set) return std::unexpected(set.error());
    auto all = container->get("whole"), part = container->get("whole", 1, 3);
    auto removed = container->remove("whole");
    auto none = container->get("whole");
    if (!all || !part || !removed || !none) return mh::internal("not as it was meant");
    return text(std::format("{} {} {}", all->value_or("-"), part->value_or("-"), none->has_value() ? 0 : 1));
}

constexpr mh::route routes[] = {
    mh::post<visit>("/visit/{name}", {.summary = "Counts a visit", .consumes = "", .produces = "text/plain"}),
    mh::get<item>("/items/{id}", {.summary = "An item", .produces = "text/plain"}),
    mh::put<keep>("/items/{id}", {.consumes = "text/plain"}),
    mh::del<drop>("/items/{id}", {.consumes = ""}),
    mh::post<tour>("/tour", {.consumes = "text/plain", .produces = "application/json", .output = "{\"type\": \"object\"}"}),
    mh::post<failure>("/failure"),
    mh::post<fit>("/fit"),
    mh::post<sweep>("/sweep"),
    mh::get<fitted>("/fitted/{id}"),
    mh::post<jobs>("/jobs-of-all-kinds"),
    mh::post<page>("/pages/{name}"),
    mh::get<read_page>("/pages/{name}"),
    mh::post<whole>("/whole"),
};

}  // namespace

MODELHOST_INIT(load)
MODELHOST_ROUTES(routes)
