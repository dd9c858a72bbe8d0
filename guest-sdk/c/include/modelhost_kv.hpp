/* Values that outlive a request, in C++: modelhost_kv.h with types. What functions give lasts until the
 * call is over, and so does a bucket: it is opened in the call that uses it, and has not to be closed. */
#ifndef MODELHOST_KV_HPP
#define MODELHOST_KV_HPP

#include <modelhost.hpp>
#include <modelhost_kv.h>

#include <chrono>

namespace mh {

/* Keys and their values, which are any bytes. A `ttl` says how long a value lives; 0 is until it is
 * deleted. */
class bucket {
public:
    /* `default`, or `shared/sessions` for one that several endpoints are granted. */
    static result<bucket> open(const char *name = "default") {
        mh_bucket raw = {};
        const mh_error *failed = mh_kv_open(name, &raw);
        return done(failed, bucket(raw));
    }

    /* The value of a key, if there is one. */
    result<std::optional<std::string_view>> get(std::string_view key) const {
        mh_bytes value = {};
        const mh_error *failed = mh_kv_get(raw_, raw(key), &value);
        return done(failed, value.data == nullptr ? std::nullopt : std::optional(view(value)));
    }
    result<void> set(std::string_view key, std::string_view value, std::chrono::milliseconds ttl = {}) const {
        return done(mh_kv_set(raw_, raw(key), raw_bytes(value), of(ttl)));
    }
    /* Sets a value if the key is not there, and says whether it did: a lock, or a mark that something is
     * being done. */
    result<bool> add(std::string_view key, std::string_view value, std::chrono::milliseconds ttl = {}) const {
        bool added = false;
        const mh_error *failed = mh_kv_add(raw_, raw(key), raw_bytes(value), of(ttl), &added);
        return done(failed, added);
    }
    /* Adds to a number and gives the sum. A key that is not there counts as 0, and `ttl` is for it alone. */
    result<std::int64_t> increment(std::string_view key, std::int64_t by = 1, std::chrono::milliseconds ttl = {}) const {
        std::int64_t sum = 0;
        const mh_error *failed = mh_kv_increment(raw_, raw(key), by, of(ttl), &sum);
        return done(failed, sum);
    }
    /* Sets a value if the present one is `current`, none for no value, and says whether it did. Its end
     * stays as it is. */
    result<bool> swap(std::string_view key, std::optional<std::string_view> current, std::string_view value) const {
        bool swapped = false;
        /* A text without a place is none to C. */
        const char *place = current && current->data() != nullptr ? current->data() : "";
        mh_bytes present = current ? raw_bytes({place, current->size()}) : mh_bytes{};
        const mh_error *failed = mh_kv_swap(raw_, raw(key), present, raw_bytes(value), &swapped);
        return done(failed, swapped);
    }
    /* Removes a key, whether it is there or not. */
    result<void> remove(std::string_view key) const { return done(mh_kv_delete(raw_, raw(key))); }
    /* All keys that begin with `prefix`, in the order of their bytes. */
    result<std::vector<std::string_view>> keys(std::string_view prefix = {}) const {
        mh_text_list found = {};
        const mh_error *failed = mh_kv_keys(raw_, raw(prefix), &found);
        std::vector<std::string_view> keys;
        for (std::size_t at = 0; at < found.len; at++) keys.push_back(view(found.items[at]));
        return done(failed, keys);
    }

private:
    explicit bucket(mh_bucket raw) : raw_(raw) {}
    static std::uint64_t of(std::chrono::milliseconds ttl) { return static_cast<std::uint64_t>(ttl.count()); }
    mh_bucket raw_;
};

}  // namespace mh

#endif
