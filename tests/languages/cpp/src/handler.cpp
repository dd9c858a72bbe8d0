// Does as the body says (`{"do": "file"}`), and makes each tensor anew, by the type of its elements.
#include <cstdio>
#include <modelhost.hpp>

namespace {

std::string label;

mh::result<void> load(std::string_view metadata) {
    auto json = mh::json::read(metadata);
    if (!json) return std::unexpected(json.error());
    auto found = json->get("label");
    if (!found) return mh::internal("`metadata` needs `label`");
    label = found->string().value_or("");
    return {};
}

mh::result<std::string_view> greeting() {
    std::FILE *file = std::fopen("/mnt/project/greeting.json", "r");
    if (file == nullptr) return mh::internal("the file cannot be opened");
    char bytes[1024];
    std::string_view read(bytes, std::fread(bytes, 1, sizeof bytes, file));
    std::fclose(file);
    auto json = mh::json::read(mh::view(mh::text(read)));
    if (!json) return std::unexpected(json.error());
    return json->get("greeting").and_then([](mh::json it) { return it.string(); }).value_or("");
}

mh::result<mh::tensors> prepare(const mh::sample &sample, mh::context) {
    auto json = sample.json();
    if (!json) return std::unexpected(json.error());
    std::string_view text = json->get("do").and_then([](mh::json it) { return it.string(); }).value_or("");
    if (text == "invalid") return mh::invalid("as asked");
    if (text == "internal") return mh::internal("as asked");
    if (text == "respond") {
        mh::response teapot = mh_text_response(mh::text("teapot"));
        teapot.status = 418;
        return mh::respond(teapot);
    }
    if (text == "file") {
        auto file = greeting();
        if (!file) return std::unexpected(file.error());
        text = *file;
    }
    return mh::tensor::of_texts({text}).named("text");
}

mh::result<mh::response> answer(mh::tensors outputs, mh::context) {
    auto texts = outputs.named("text").and_then([](mh::tensor it) { return it.texts(); });
    if (!texts) return std::unexpected(texts.error());
    mh::json_writer json;
    json.begin('{').name("answer").value(texts->at(0)).name("label").value(label).end('}');
    return json.response();
}

template <typename T>
mh::result<mh::tensor> of(mh::tensor it) {
    auto values = it.values<T>();
    if (!values) return std::unexpected(values.error());
    return mh::tensor::of<T>(*values, it.shape()).named(it.name());
}

mh::result<mh::tensor> again(mh::tensor it) {
    switch (it.datatype()) {
        case MH_BOOL: return of<bool>(it);
        case MH_UINT8: return of<std::uint8_t>(it);
        case MH_UINT16: return of<std::uint16_t>(it);
        case MH_UINT32: return of<std::uint32_t>(it);
        case MH_UINT64: return of<std::uint64_t>(it);
        case MH_INT8: return of<std::int8_t>(it);
        case MH_INT16: return of<std::int16_t>(it);
        case MH_INT32: return of<std::int32_t>(it);
        case MH_INT64: return of<std::int64_t>(it);
        case MH_FP16: return of<mh::float16>(it);
        case MH_BF16: return of<mh::bfloat16>(it);
        case MH_FP32: return of<float>(it);
        case MH_FP64: return of<double>(it);
    }
    auto texts = it.texts();
    if (!texts) return std::unexpected(texts.error());
    return mh::tensor::of_texts(*texts, it.shape()).named(it.name());
}

mh::result<mh::tensors> tensors(mh::tensors given, mh::context) {
    std::vector<mh::tensor> made;
    for (std::size_t at = 0; at < given.size(); at++) {
        auto other = again(given[at]);
        if (!other) return std::unexpected(other.error());
        made.push_back(*other);
    }
    return mh::tensors(made);
}

}  // namespace

MODELHOST_INIT(load)
MODELHOST_PRE_INFERENCE(prepare)
MODELHOST_POST_INFERENCE(answer)
MODELHOST_PRE_INFERENCE_TENSORS(tensors)
MODELHOST_POST_INFERENCE_TENSORS(tensors)
