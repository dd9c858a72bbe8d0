/* Write handlers for modelhost in C++ (C++23): the functions of modelhost.h with types.
 *
 * Functions return a result: what they made, or an error. What they are given, and what is made with mh::alloc or as a
 * view, lasts until the call is over; what is to stay is copied into strings and vectors of the handler's.
 */
#ifndef MODELHOST_HPP
#define MODELHOST_HPP

#include <modelhost.h>

#include <cmath>
#include <cstring>
#include <expected>
#include <format>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mh {

inline std::string_view view(mh_str text) { return {text.data, text.len}; }
inline std::string_view view(mh_bytes bytes) { return view(mh_text_of(bytes)); }

/* The same as C takes it, not a copy. */
inline mh_str raw(std::string_view text) { return {text.data(), text.size()}; }
inline mh_bytes raw_bytes(std::string_view bytes) { return mh_bytes_of(raw(bytes)); }

/* A copy that lasts until the call is over. */
inline mh_str text(std::string_view text) {
    char *copy = static_cast<char *>(mh_alloc(text.size()));
    if (!text.empty()) std::memcpy(copy, text.data(), text.size());
    return {copy, text.size()};
}

/* Why a handler does not go on. */
struct error {
    const mh_error *made;
    std::string_view text() const { return view(mh_error_text(made)); }
    mh_reason reason() const { return mh_reason_of(made); }
    std::uint16_t status() const { return mh_status_of(made); }
};

template <typename T>
using result = std::expected<T, error>;

/* The result of a function in C, NULL if it was done. */
inline result<void> done(const mh_error *failed) {
    if (failed != nullptr) return std::unexpected(error{failed});
    return {};
}

/* The same of a function that has made something. */
template <typename T>
result<T> done(const mh_error *failed, const T &made) {
    if (failed != nullptr) return std::unexpected(error{failed});
    return made;
}

/* The caller sent something unusable: 400 with this text, which the caller reads. */
template <typename... Arguments>
std::unexpected<error> invalid(std::format_string<Arguments...> format, Arguments &&...arguments) {
    std::string text = std::format(format, std::forward<Arguments>(arguments)...);
    return std::unexpected(error{mh_invalid("%.*s", static_cast<int>(text.size()), text.data())});
}

/* The handler cannot do its job: 500; the text goes to the log. */
template <typename... Arguments>
std::unexpected<error> internal(std::format_string<Arguments...> format, Arguments &&...arguments) {
    std::string text = std::format(format, std::forward<Arguments>(arguments)...);
    return std::unexpected(error{mh_internal("%.*s", static_cast<int>(text.size()), text.data())});
}

/* Elements of FP16 and of BF16, by their bits. */
enum class float16 : std::uint16_t {};
enum class bfloat16 : std::uint16_t {};

inline float to_float(float16 bits) { return mh_from_half(static_cast<std::uint16_t>(bits)); }
inline float to_float(bfloat16 bits) { return mh_from_bfloat16(static_cast<std::uint16_t>(bits)); }
inline float16 to_float16(float value) { return float16{mh_to_half(value)}; }
inline bfloat16 to_bfloat16(float value) { return bfloat16{mh_to_bfloat16(value)}; }

template <typename T>
constexpr mh_datatype datatype_of() {
    if constexpr (std::is_same_v<T, bool>) return MH_BOOL;
    else if constexpr (std::is_same_v<T, float16>) return MH_FP16;
    else if constexpr (std::is_same_v<T, bfloat16>) return MH_BF16;
    else if constexpr (std::is_same_v<T, float>) return MH_FP32;
    else if constexpr (std::is_same_v<T, double>) return MH_FP64;
    else {
        static_assert(std::is_integral_v<T>, "an element is a number or a bool");
        constexpr int power = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
        return static_cast<mh_datatype>((std::is_signed_v<T> ? MH_INT8 : MH_UINT8) + power);
    }
}

/* A dense tensor: what goes to a model and what comes from it. */
class tensor {
public:
    explicit tensor(mh_tensor raw) : raw_(raw) {}

    /* A copy of these values; without a shape a vector. */
    template <typename T>
    static tensor of(std::span<const T> values, std::initializer_list<std::uint64_t> shape = {}) {
        const std::uint64_t size = values.size();
        if (shape.size() == 0) return of<T>(values, std::span(&size, 1));
        return of<T>(values, std::span(shape.begin(), shape.size()));
    }
    template <typename T>
    static tensor of(std::span<const T> values, std::span<const std::uint64_t> shape) {
        void *copy = mh_alloc(values.size_bytes());
        if (!values.empty()) std::memcpy(copy, values.data(), values.size_bytes());
        tensor made(mh_tensor_of(datatype_of<T>(), copy, shape.data(), shape.size()));
        /* Never more than was copied, whatever the shape says. */
        if (made.raw_.data.len > values.size_bytes()) made.raw_.data.len = values.size_bytes();
        return made;
    }
    /* A tensor of BYTES; without a shape a vector. */
    static tensor of_texts(std::span<const std::string_view> texts) {
        const std::uint64_t size = texts.size();
        return of_texts(texts, std::span(&size, 1));
    }
    static tensor of_texts(std::initializer_list<std::string_view> texts) {
        return of_texts(std::span(texts.begin(), texts.size()));
    }
    static tensor of_texts(std::span<const std::string_view> texts, std::span<const std::uint64_t> shape) {
        mh_str *raw = static_cast<mh_str *>(mh_alloc(texts.size() * sizeof(mh_str)));
        for (std::size_t at = 0; at < texts.size(); at++) raw[at] = {texts[at].data(), texts[at].size()};
        tensor made(mh_tensor_of_texts(raw, texts.size()));
        made.raw_.shape = mh_tensor_of(MH_BYTES, nullptr, shape.data(), shape.size()).shape;
        return made;
    }

    tensor named(std::string_view name) const {
        tensor other = *this;
        other.raw_.name = text(name);
        return other;
    }

    std::string_view name() const { return view(raw_.name); }
    mh_datatype datatype() const { return raw_.datatype; }
    std::span<const std::uint64_t> shape() const { return {raw_.shape.data, raw_.shape.len}; }
    std::span<const std::uint8_t> data() const { return {raw_.data.data, raw_.data.len}; }
    const mh_tensor &raw() const { return raw_; }

    /* The elements where they lie; an error if they are others. */
    template <typename T>
    result<std::span<const T>> values() const {
        const void *values = mh_values(&raw_, datatype_of<T>());
        if (values == nullptr) return internal("tensor `{}` is of another datatype", name());
        return std::span<const T>(static_cast<const T *>(values), raw_.data.len / sizeof(T));
    }

    /* The elements of a tensor of BYTES. */
    result<std::vector<std::string_view>> texts() const {
        std::size_t count = 0;
        const mh_str *found = mh_texts(&raw_, &count);
        if (found == nullptr) return internal("tensor `{}` is no tensor of BYTES", name());
        std::vector<std::string_view> texts;
        for (std::size_t at = 0; at < count; at++) texts.push_back(view(found[at]));
        return texts;
    }

private:
    mh_tensor raw_;
};

/* Tensors in the model's order. */
class tensors {
public:
    tensors(mh_tensors raw) : raw_(raw) {}
    tensors(const tensor &one) : raw_(mh_one(one.raw())) {}
    tensors(std::initializer_list<tensor> list) : tensors(std::span(list.begin(), list.size())) {}
    explicit tensors(std::span<const tensor> list)
        : raw_{static_cast<mh_tensor *>(mh_alloc(list.size() * sizeof(mh_tensor))), 0} {
        for (const tensor &each : list) raw_.items[raw_.len++] = each.raw();
    }

    std::size_t size() const { return raw_.len; }
    tensor operator[](std::size_t at) const { return tensor(raw_.items[at]); }
    mh_tensors raw() const { return raw_; }

    result<tensor> named(std::string_view name) const {
        for (std::size_t at = 0; at < raw_.len; at++) {
            if (view(raw_.items[at].name) == name) return tensor(raw_.items[at]);
        }
        return internal("no tensor is named `{}`", name);
    }

private:
    mh_tensors raw_;
};

/* Where the largest value is; NaN is never the largest. */
inline std::size_t argmax(std::span<const float> values) { return mh_argmax(values.data(), values.size()); }

/* A value of a JSON document. */
class json {
public:
    explicit json(const mh_json *value) : value_(value) {}
    static result<json> read(std::string_view text) {
        const mh_json *value;
        const mh_error *failed = mh_json_read({reinterpret_cast<const std::uint8_t *>(text.data()), text.size()}, &value);
        if (failed != nullptr) return std::unexpected(error{failed});
        return json(value);
    }

    mh_json_kind kind() const { return value_->kind; }
    std::optional<double> number() const { return is(MH_JSON_NUMBER) ? std::optional(value_->number) : std::nullopt; }
    std::optional<bool> boolean() const { return is(MH_JSON_BOOL) ? std::optional(value_->boolean) : std::nullopt; }
    std::optional<std::string_view> string() const {
        return is(MH_JSON_STRING) ? std::optional(view(value_->text)) : std::nullopt;
    }
    /* The value under a name of an object. */
    std::optional<json> get(const char *name) const {
        const mh_json *found = mh_json_get(value_, name);
        return found == nullptr ? std::nullopt : std::optional(json(found));
    }
    /* The values of an array or an object. */
    std::vector<json> elements() const {
        std::vector<json> found;
        for (const mh_json *each = value_->first; each != nullptr; each = each->next) found.emplace_back(each);
        return found;
    }

private:
    bool is(mh_json_kind kind) const { return value_->kind == kind; }
    const mh_json *value_;
};

/* Writes JSON: begin('{'), name("a"), value(1), end('}'). */
class json_writer {
public:
    json_writer &begin(char bracket) { return mh_write_begin(&raw_, bracket), *this; }
    json_writer &end(char bracket) { return mh_write_end(&raw_, bracket), *this; }
    json_writer &name(const char *name) { return mh_write_name(&raw_, name), *this; }
    json_writer &value(std::string_view text) { return mh_write_text(&raw_, {text.data(), text.size()}), *this; }
    json_writer &value(const char *text) { return value(std::string_view(text)); }
    json_writer &value(bool value) { return mh_write_bool(&raw_, value), *this; }
    json_writer &value(float value) { return mh_write_float(&raw_, value), *this; }
    template <typename T>
        requires std::is_arithmetic_v<T>
    json_writer &value(T value) {
        if constexpr (std::is_floating_point_v<T>) {
            mh_write_number(&raw_, static_cast<double>(value));
        } else if constexpr (std::is_signed_v<T>) {
            mh_write_integer(&raw_, value);
        } else {
            mh_write_unsigned(&raw_, value);
        }
        return *this;
    }
    json_writer &value(std::span<const float> values) { return mh_write_floats(&raw_, values.data(), values.size()), *this; }
    mh_response response() const { return mh_json_response(&raw_); }
    mh_json_writer *raw() { return &raw_; }

private:
    mh_json_writer raw_ = {};
};

/* A request's body. */
class sample {
public:
    explicit sample(const mh_sample &raw) : raw_(raw) {}
    std::string_view content_type() const { return view(raw_.content_type); }
    std::span<const std::uint8_t> body() const { return {raw_.body.data, raw_.body.len}; }
    std::string_view text() const { return {reinterpret_cast<const char *>(raw_.body.data), raw_.body.len}; }
    result<mh::json> json() const { return mh::json::read(text()); }
    /* The numbers under these names in the body, an object; a missing one is the caller's fault. */
    result<std::span<const float>> numbers(std::span<const char *const> names) const {
        float *values = static_cast<float *>(mh_alloc(names.size() * sizeof(float)));
        const mh_error *failed = mh_numbers(&raw_, names.size(), names.data(), values);
        if (failed != nullptr) return std::unexpected(error{failed});
        return std::span<const float>(values, names.size());
    }

private:
    mh_sample raw_;
};

/* The request being served. What is not asked for is not fetched. */
class context {
public:
    explicit context(const mh_context *raw) : raw_(raw) {}
    std::string_view request_id() const { return view(mh_request_id(raw_)); }
    std::string_view method() const { return view(mh_method(raw_)); }
    std::string_view path() const { return view(mh_path(raw_)); }
    std::string_view query() const { return view(mh_query(raw_)); }
    std::string_view metadata() const { return view(mh_metadata(raw_)); }
    std::string_view parameters() const { return view(mh_parameters(raw_)); }
    std::optional<std::string_view> header(const char *name) const {
        mh_str value;
        return mh_request_header(raw_, name, &value) ? std::optional(view(value)) : std::nullopt;
    }
    /* The part of the path for which `{name}` stands in the route's pattern, decoded. */
    std::string_view path_parameter(const char *name) const { return view(mh_path_parameter(raw_, name)); }
    mh::sample sample() const { return mh::sample(mh_request_sample(raw_)); }
    mh_signature signature() const { return mh_model_signature(raw_); }

private:
    const mh_context *raw_;
};

/* Runs a model of the endpoint, by its name in the configuration; "" is the first one. */
inline result<tensors> infer(const char *model, const tensors &inputs) {
    mh_tensors outputs;
    const mh_error *failed = mh_infer(model, inputs.raw(), &outputs);
    if (failed != nullptr) return std::unexpected(error{failed});
    return tensors(outputs);
}

using response = mh_response;

/* Adds a header, or another value of one: two cookies are two of `set-cookie`. Both are copied. */
inline void add_header(response &to, std::string_view name, std::string_view value) {
    mh_add_header(&to, text(name), text(value));
}

/* Answers with this response and skips what is left. */
inline std::unexpected<error> respond(const response &response) { return std::unexpected(error{mh_respond(response)}); }

/* Functions of C++ as those of C. */
template <auto function>
const mh_error *init_of(mh_str metadata) {
    result<void> done = function(view(metadata));
    return done ? nullptr : done.error().made;
}

template <auto function>
const mh_error *pre_of(const mh_sample *given, const mh_context *request, mh_tensors *inputs) {
    result<tensors> made = function(sample(*given), context(request));
    if (!made) return made.error().made;
    *inputs = made->raw();
    return nullptr;
}

template <auto function>
const mh_error *post_of(mh_tensors outputs, const mh_context *request, mh_response *answer) {
    result<response> made = function(tensors(outputs), context(request));
    if (!made) return made.error().made;
    *answer = *made;
    return nullptr;
}

template <auto function>
const mh_error *tensors_of(mh_tensors given, const mh_context *request, mh_tensors *answer) {
    result<tensors> made = function(tensors(given), context(request));
    if (!made) return made.error().made;
    *answer = made->raw();
    return nullptr;
}

}  // namespace mh

/* What the component exports: functions named to these. */
#define MODELHOST_INIT(function) MH_INIT(mh::init_of<function>)
#define MODELHOST_PRE_INFERENCE(function) MH_PRE_INFERENCE(mh::pre_of<function>)
#define MODELHOST_POST_INFERENCE(function) MH_POST_INFERENCE(mh::post_of<function>)
#define MODELHOST_PRE_INFERENCE_TENSORS(function) MH_PRE_INFERENCE_TENSORS(mh::tensors_of<function>)
#define MODELHOST_POST_INFERENCE_TENSORS(function) MH_POST_INFERENCE_TENSORS(mh::tensors_of<function>)

#endif
