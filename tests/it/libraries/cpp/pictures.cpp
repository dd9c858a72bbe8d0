// Pictures to bytes, as a header says.
#include <modelhost.hpp>
#include <modelhost_libraries.h>

namespace {

struct choice {
    std::string_view name;
    std::uint8_t value;
};

std::uint8_t chosen(const mh::json &said, const char *key, std::initializer_list<choice> choices) {
    auto name = said.get(key).and_then([](mh::json it) { return it.string(); });
    for (const choice &each : choices) {
        if (name == each.name) return each.value;
    }
    return 0;
}

mh::result<mh::tensors> prepare(const mh::sample &sample, mh::context context) {
    auto said = mh::json::read(context.header("x-preparation").value_or("{}"));
    if (!said) return std::unexpected(said.error());
    static const float half[] = {0.5f};
    mh_preparation preparation = {};
    preparation.fit = chosen(*said, "fit", {{"cover", MH_COVER}, {"contain", MH_CONTAIN}});
    preparation.filter = chosen(
        *said, "filter", {{"nearest", MH_NEAREST}, {"box", MH_BOX}, {"bicubic", MH_BICUBIC}, {"lanczos", MH_LANCZOS}});
    preparation.colours = chosen(*said, "colours", {{"grey", MH_GREY}});
    preparation.layout = chosen(*said, "layout", {{"pixels", MH_PIXELS}});
    preparation.datatype = chosen(*said, "datatype", {{"UINT8", MH_UINT8}});
    preparation.mean = {half, said->get("mean") ? 1u : 0u};
    if (auto size = said->get("size")) {
        preparation.width = static_cast<std::uint32_t>(*size->elements()[0].number());
        preparation.height = static_cast<std::uint32_t>(*size->elements()[1].number());
    }
    mh_picture picture;
    const mh_error *failed = mh_prepare({sample.body().data(), sample.body().size()}, &preparation, &picture);
    if (failed != nullptr) return std::unexpected(mh::error{failed});
    return mh::tensor(picture.tensor);
}

mh::result<mh::response> answer(const mh::tensors &outputs, mh::context) {
    std::string shape = "[";
    for (std::uint64_t extent : outputs[0].shape()) shape += (shape.size() > 1 ? "," : "") + std::to_string(extent);
    auto *header = static_cast<mh_header *>(mh_alloc(sizeof(mh_header)));
    *header = {mh::text("x-shape"), mh::text(shape + "]")};
    return mh::response{.status = 200, .content_type = mh::text(""), .headers = {header, 1}, .body = outputs[0].raw().data};
}

}  // namespace

MODELHOST_PRE_INFERENCE(prepare)
MODELHOST_POST_INFERENCE(answer)
