// Names an iris from four measurements.
//
// In:  `{"sepal_length": 5.2, "sepal_width": 3.6, "petal_length": 1.4, "petal_width": 0.3}`, in centimetres.
// Out: `{"class_label": "setosa", "class_index": 0, "probabilities": [0.98, 0.02, 0.0]}`.
//
// The model takes `[rows, 4]` floats; its output `probabilities` holds one for each class.
#include <modelhost.hpp>

namespace {

constexpr const char *names[] = {"sepal_length", "sepal_width", "petal_length", "petal_width"};

std::vector<std::string> labels;

// Runs once, when the handler is loaded. `metadata` is the endpoint's in modelhost.toml.
mh::result<void> load(std::string_view metadata) {
    auto json = mh::json::read(metadata);
    if (!json) return std::unexpected(json.error());
    auto list = json->get("labels");
    if (!list) return mh::internal("`metadata` needs `labels`");
    for (mh::json label : list->elements()) labels.emplace_back(label.string().value_or(""));
    return {};
}

// From the request to the model's input.
mh::result<mh::tensors> prepare(const mh::sample &sample, mh::context) {
    auto flower = sample.numbers(names);
    if (!flower) return std::unexpected(flower.error());
    return mh::tensor::of<float>(*flower, {1, flower->size()});
}

// From the model's outputs to the response.
mh::result<mh::response> answer(mh::tensors outputs, mh::context) {
    auto probabilities = outputs.named("probabilities").and_then([](mh::tensor it) { return it.values<float>(); });
    if (!probabilities) return std::unexpected(probabilities.error());
    std::size_t best = mh::argmax(*probabilities);
    if (best >= labels.size()) return mh::internal("{} classes, and {} labels", probabilities->size(), labels.size());
    mh::json_writer json;
    json.begin('{').name("class_label").value(labels[best]).name("class_index").value(best);
    json.name("probabilities").value(*probabilities).end('}');
    return json.response();
}

}  // namespace

MODELHOST_INIT(load)
MODELHOST_PRE_INFERENCE(prepare)
MODELHOST_POST_INFERENCE(answer)
