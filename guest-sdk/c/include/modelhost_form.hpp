/* Forms with files in C++: modelhost_form.h with types. What functions give lasts until the call is over. */
#ifndef MODELHOST_FORM_HPP
#define MODELHOST_FORM_HPP

#include <modelhost.hpp>
#include <modelhost_form.h>

namespace mh {

/* One part of a form. */
class part {
public:
    explicit part(const mh_part &raw) : raw_(raw) {}
    std::string_view name() const { return view(raw_.name); }
    /* Of a file; the caller's choice, so no path to be opened. */
    std::optional<std::string_view> filename() const {
        return raw_.is_file ? std::optional(view(raw_.filename)) : std::nullopt;
    }
    /* `text/plain` if the part says none. */
    std::string_view content_type() const { return view(raw_.content_type); }
    std::span<const std::uint8_t> body() const { return {raw_.body.data, raw_.body.len}; }
    /* As UTF-8; others are the caller's fault. */
    result<std::string_view> text() const {
        mh_str text = {};
        const mh_error *failed = mh_part_text(&raw_, &text);
        return done(failed, view(text));
    }

private:
    mh_part raw_;
};

/* The parts of a body, `multipart/form-data`, in their order. */
class form {
public:
    /* At most 1000 parts, with 8 KiB of headers each. Another content type is answered with 415. */
    static result<form> read(const sample &given) {
        const mh_sample raw = {mh::raw(given.content_type()), {given.body().data(), given.body().size()}};
        mh_form made = {};
        const mh_error *failed = mh_multipart(&raw, &made);
        return done(failed, form(made));
    }
    std::size_t size() const { return raw_.len; }
    part operator[](std::size_t at) const { return part(raw_.items[at]); }
    /* The text of the first field of this name; without one it is the caller's fault. */
    result<std::string_view> field(const char *name) const {
        const mh_part *found = mh_form_field(&raw_, name);
        if (found == nullptr) return invalid("missing field `{}`", name);
        return part(*found).text();
    }
    /* The first file of this name; without one it is the caller's fault. */
    result<part> file(const char *name) const {
        const mh_part *found = mh_form_file(&raw_, name);
        if (found == nullptr) return invalid("missing file `{}`", name);
        return part(*found);
    }

private:
    explicit form(const mh_form &raw) : raw_(raw) {}
    mh_form raw_;
};

} // namespace mh

#endif
