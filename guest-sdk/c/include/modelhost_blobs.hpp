/* Objects that outlive a request, of any size, in C++: modelhost_blobs.h with types. What functions give
 * lasts until the call is over, and so does a container. Readers close themselves, and writers that are not
 * finished leave nothing. */
#ifndef MODELHOST_BLOBS_HPP
#define MODELHOST_BLOBS_HPP

#include <modelhost.hpp>
#include <modelhost_blobs.h>

namespace mh {

/* An object that is read. */
class blob_reader {
public:
    explicit blob_reader(mh_blob_reader raw) : raw_(raw) {}
    blob_reader(blob_reader &&other) noexcept : raw_(std::exchange(other.raw_, {})) {}
    blob_reader &operator=(blob_reader &&other) noexcept { return std::swap(raw_, other.raw_), *this; }
    ~blob_reader() { mh_blob_close(&raw_); }

    /* The bytes that there are. */
    std::uint64_t size() const { return raw_.size; }
    /* Reads the next bytes into the buffer and gives those that were read; none at the end. */
    result<std::span<std::uint8_t>> read(std::span<std::uint8_t> buffer) {
        std::size_t len = 0;
        const mh_error *failed = mh_blob_read(&raw_, buffer.data(), buffer.size(), &len);
        return done(failed, buffer.first(len));
    }

private:
    mh_blob_reader raw_;
};

/* An object that is written: it is there when finish() has returned. */
class blob_writer {
public:
    explicit blob_writer(mh_blob_writer raw) : raw_(raw) {}
    blob_writer(blob_writer &&other) noexcept : raw_(std::exchange(other.raw_, {})) {}
    blob_writer &operator=(blob_writer &&other) noexcept { return std::swap(raw_, other.raw_), *this; }
    ~blob_writer() { mh_blob_give_up(&raw_); }

    result<void> write(std::string_view piece) { return done(mh_blob_write(&raw_, raw_bytes(piece))); }
    result<void> finish() { return done(mh_blob_finish(&raw_)); }

private:
    mh_blob_writer raw_;
};

/* Objects by name. */
class container {
public:
    /* `default`, or `shared/pages` for one that several endpoints are granted. */
    static result<container> open(const char *name = "default") {
        mh_container raw = {};
        const mh_error *failed = mh_blob_open(name, &raw);
        return done(failed, container(raw));
    }

    /* An object as a whole, if it is there. */
    result<std::optional<std::string_view>> get(std::string_view name) const { return get(name, 0, UINT64_MAX); }
    /* Its bytes from `start` up to `end`, as far as there are some. */
    result<std::optional<std::string_view>> get(std::string_view name, std::uint64_t start, std::uint64_t end) const {
        mh_bytes content = {};
        const mh_error *failed = mh_blob_get_range(raw_, raw(name), start, end, &content);
        return done(failed, content.data == nullptr ? std::nullopt : std::optional(view(content)));
    }
    /* An object to be read piece by piece, if it is there. */
    result<std::optional<blob_reader>> reader(std::string_view name) const {
        mh_blob_reader raw = {};
        const mh_error *failed = mh_blob_read_from(raw_, mh::raw(name), &raw);
        if (failed != nullptr) return std::unexpected(error{failed});
        return raw.is_there ? std::optional<blob_reader>(raw) : std::nullopt;
    }
    /* Writes an object as a whole, in place of an earlier one. */
    result<void> set(std::string_view name, std::string_view content) const {
        return done(mh_blob_set(raw_, raw(name), raw_bytes(content)));
    }
    /* An object to be written piece by piece. */
    result<blob_writer> writer(std::string_view name) const {
        mh_blob_writer raw = {};
        const mh_error *failed = mh_blob_write_to(raw_, mh::raw(name), &raw);
        if (failed != nullptr) return std::unexpected(error{failed});
        return blob_writer(raw);
    }
    /* Size and age, if it is there. */
    result<std::optional<mh_blob_info>> info(std::string_view name) const {
        mh_blob_info info = {};
        const mh_error *failed = mh_blob_look(raw_, raw(name), &info);
        return done(failed, info.is_there ? std::optional(info) : std::nullopt);
    }
    /* Removes an object, whether it is there or not. */
    result<void> remove(std::string_view name) const { return done(mh_blob_delete(raw_, raw(name))); }
    /* Removes all objects. */
    result<void> clear() const { return done(mh_blob_clear(raw_)); }
    /* The names of so many objects at most, in any order. */
    result<std::vector<std::string_view>> names(std::size_t most = SIZE_MAX) const {
        mh_text_list found = {};
        const mh_error *failed = mh_blob_names(raw_, most, &found);
        std::vector<std::string_view> names;
        for (std::size_t at = 0; at < found.len; at++) names.push_back(view(found.items[at]));
        return done(failed, names);
    }

private:
    explicit container(mh_container raw) : raw_(raw) {}
    mh_container raw_;
};

}  // namespace mh

#endif
