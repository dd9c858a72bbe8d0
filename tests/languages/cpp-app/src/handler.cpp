/* An application with a stream: each number is an event, sent while the next one is made. */
#include <modelhost_app.hpp>

#include <iostream>

namespace {

std::string label;

mh::result<void> load(std::string_view metadata) {
    auto json = mh::json::read(metadata);
    if (!json) return std::unexpected(json.error());
    label = json->get("label")->string().value();
    return {};
}

mh::result<void> stream(const mh::sample &sample, mh::output &output) {
    auto json = sample.json();
    if (!json) return std::unexpected(json.error());
    auto to = json->get("to");
    if (!to) return mh::invalid("missing field `to`");
    mh::json_writer event;
    for (int number = 0; number < to->number().value_or(0); number++) {
        event.begin('{').name("number").value(number).end('}');
        if (!output.event(event)) break;
    }
    return {};
}

mh::result<std::optional<mh::response>> scores(const mh::sample &sample) {
    auto json = sample.json();
    if (!json) return std::unexpected(json.error());
    const std::string model(json->get("model")->string().value());
    static const float flower[] = {5.2f, 3.6f, 1.4f, 0.3f};
    auto outputs = mh::infer(model.c_str(), {mh::tensor::of<float>(flower, {1, 4})});
    if (!outputs) return std::unexpected(outputs.error());
    auto values = (*outputs)[outputs->size() - 1].values<float>();
    if (!values) return std::unexpected(values.error());
    return mh::json_writer().begin('{').name("scores").value(*values).end('}').response();
}

mh::result<std::optional<mh::response>> serve(const mh::sample &sample, const mh::context &context, mh::output &output) {
    if (context.method() == "GET" && context.path() == "/label") {
        return mh::json_writer().begin('{').name("label").value(label).end('}').response();
    }
    if (context.path() == "/stream" || context.path() == "/breaks") {
        auto sent = stream(sample, output);
        if (!sent) return std::unexpected(sent.error());
        if (context.path() == "/breaks") return mh::internal("as asked");
        return std::nullopt;
    }
    if (context.path() == "/scores") return scores(sample);
    if (context.path() == "/works") {
        mh::response started = mh_text_response(mh_text("started"));
        started.status = 202;
        auto sent = output.send(started);
        if (!sent) return std::unexpected(sent.error());
        // The log has each line, not the first alone.
        std::cout << "works\n" << "worked\n";
        return std::nullopt;
    }
    mh::response none = mh_text_response(mh_text("no such path"));
    none.status = 404;
    return none;
}

}  // namespace

MODELHOST_INIT(load)
MODELHOST_RESPOND(serve)
