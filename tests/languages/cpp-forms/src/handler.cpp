/* An application that tells the parts of a form, and sets two cookies: see tests/languages/multipart.json. */
#include <modelhost_form.hpp>
#include <modelhost_router.hpp>

namespace {

mh::result<mh::response> form(const mh::sample &sample, const mh::context &) {
    auto form = mh::form::read(sample);
    if (!form) return std::unexpected(form.error());
    mh::json_writer writer;
    writer.begin('{').name("parts").begin('[');
    for (std::size_t at = 0; at < form->size(); at++) {
        const mh::part part = (*form)[at];
        std::uint64_t sum = 0;
        for (std::uint8_t byte : part.body()) sum += byte;
        writer.begin('{').name("name").value(part.name()).name("filename");
        if (part.filename()) writer.value(*part.filename());
        else mh_write_null(writer.raw());
        writer.name("type").value(part.content_type());
        writer.name("size").value(part.body().size()).name("sum").value(sum).end('}');
    }
    return writer.end(']').end('}').response();
}

mh::result<mh::response> cookies(const mh::sample &, const mh::context &) {
    mh::response response = mh_text_response(mh_text("baked"));
    mh::add_header(response, "set-cookie", "a=1");
    mh::add_header(response, "set-cookie", "b=2");
    return response;
}

constexpr mh::route routes[] = {
    mh::post<form>("/form", {.consumes = "multipart/form-data"}),
    mh::get<cookies>("/cookies"),
};

}  // namespace

MODELHOST_ROUTES(routes)
