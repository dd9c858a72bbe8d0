/* JSON: read into elements that last as long as the call, and written. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* --- Reading ---------------------------------------------------------------------------------------------------- */

enum { DEEPEST = 128 };

typedef struct {
    const char *begin, *at, *end;
    const mh_error *error;
    int depth;
} reader;

static bool wrong(reader *r, const char *expected) {
    if (r->error == NULL) {
        long place = (long)(r->at - r->begin);
        r->error = r->at < r->end ? mh_invalid("malformed json: expected %s at byte %ld", expected, place)
                                  : mh_invalid("malformed json: expected %s, and the body ends", expected);
    }
    return false;
}

static void space(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool word(reader *r, const char *word) {
    size_t len = strlen(word);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, word, len) != 0) return wrong(r, "a value");
    r->at += len;
    return true;
}

static bool is_digit(reader *r) { return r->at < r->end && *r->at >= '0' && *r->at <= '9'; }

static bool digits(reader *r) {
    if (!is_digit(r)) return wrong(r, "a digit");
    while (is_digit(r)) r->at++;
    return true;
}

static bool number(reader *r, mh_json *value) {
    static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *start = r->at;
    bool is_negative = *r->at == '-';
    if (is_negative) r->at++;
    const char *whole = r->at;
    if (r->at < r->end && *r->at == '0') {
        r->at++;
    } else if (!digits(r)) {
        return false;
    }
    const char *point = r->at;
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!digits(r)) return false;
    }
    const char *fraction_end = r->at;
    if (r->at < r->end && (*r->at == 'e' || *r->at == 'E')) {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-')) r->at++;
        if (!digits(r)) return false;
    }
    value->kind = MH_JSON_NUMBER;
    value->text = (mh_str){start, (size_t)(r->at - start)};
    if (r->at == fraction_end && fraction_end - whole <= 15) {
        /* Whole numbers up to 2^53 and powers of ten up to 10^22 are exact, so their quotient is the nearest. */
        int64_t units = 0;
        for (const char *c = whole; c < fraction_end; c++) {
            if (*c != '.') units = units * 10 + (*c - '0');
        }
        double size = (double)units / powers[fraction_end > point ? fraction_end - point - 1 : 0];
        value->number = is_negative ? -size : size;
        return true;
    }
    char *copy = mh_alloc(value->text.len + 1);
    memcpy(copy, start, value->text.len);
    copy[value->text.len] = 0;
    value->number = strtod(copy, NULL);
    return true;
}

static int hex(reader *r) {
    int value = 0;
    for (int digit = 0; digit < 4; digit++) {
        char c = r->at < r->end ? *r->at : 0;
        int own = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (own < 0) return -1;
        value = value * 16 + own;
        r->at++;
    }
    return value;
}

static char *utf8(char *to, uint32_t point) {
    if (point < 0x80) {
        *to++ = (char)point;
    } else if (point < 0x800) {
        *to++ = (char)(0xc0 | point >> 6);
        *to++ = (char)(0x80 | (point & 63));
    } else if (point < 0x10000) {
        *to++ = (char)(0xe0 | point >> 12);
        *to++ = (char)(0x80 | (point >> 6 & 63));
        *to++ = (char)(0x80 | (point & 63));
    } else {
        *to++ = (char)(0xf0 | point >> 18);
        *to++ = (char)(0x80 | (point >> 12 & 63));
        *to++ = (char)(0x80 | (point >> 6 & 63));
        *to++ = (char)(0x80 | (point & 63));
    }
    return to;
}

/* What follows a backslash. */
static char *escape(reader *r, char *to) {
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = r->at < r->end ? *r->at++ : 0;
    const char *found = c == 0 ? NULL : strchr(plain, c);
    if (found != NULL) {
        *to++ = meant[found - plain];
        return to;
    }
    int point = c == 'u' ? hex(r) : -1;
    if (point >= 0xd800 && point < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        int low = hex(r);
        point = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00) : -1;
    }
    if (point < 0 || (point >= 0xd800 && point < 0xe000)) {
        wrong(r, "an escape");
        return NULL;
    }
    return utf8(to, (uint32_t)point);
}

static bool string(reader *r, mh_str *text) {
    if (r->at >= r->end || *r->at != '"') return wrong(r, "`\"`");
    const char *start = ++r->at;
    while (r->at < r->end && *r->at != '"' && *r->at != '\\' && (unsigned char)*r->at >= 0x20) r->at++;
    if (r->at < r->end && *r->at == '"') {
        *text = (mh_str){start, (size_t)(r->at++ - start)};
        return true;
    }
    const char *last = r->at;
    while (last < r->end && *last != '"') last += *last == '\\' && r->end - last > 1 ? 2 : 1;
    /* What an escape stands for is no longer than the escape. */
    char *copy = mh_alloc((size_t)(last - start)), *to = copy;
    memcpy(copy, start, (size_t)(r->at - start));
    to += r->at - start;
    while (r->at < r->end && *r->at != '"') {
        if (*r->at == '\\') {
            r->at++;
            if ((to = escape(r, to)) == NULL) return false;
        } else if ((unsigned char)*r->at < 0x20) {
            return wrong(r, "an escape of a control character");
        } else {
            *to++ = *r->at++;
        }
    }
    if (r->at >= r->end) return wrong(r, "`\"`");
    r->at++;
    *text = (mh_str){copy, (size_t)(to - copy)};
    return true;
}

static bool value(reader *r, mh_json *made);

static bool elements(reader *r, mh_json *made, char close) {
    mh_json **next = &made->first;
    made->kind = close == '}' ? MH_JSON_OBJECT : MH_JSON_ARRAY;
    r->at++;
    if (++r->depth > DEEPEST) {
        r->error = mh_invalid("malformed json: deeper than %d", DEEPEST);
        return false;
    }
    space(r);
    while (r->at >= r->end || *r->at != close) {
        if (made->len > 0) {
            if (r->at >= r->end || *r->at != ',') return wrong(r, close == '}' ? "`,` or `}`" : "`,` or `]`");
            r->at++;
            space(r);
        }
        mh_json *element = mh_alloc(sizeof *element);
        *element = (mh_json){0};
        mh_str name = {0};
        if (close == '}') {
            if (!string(r, &name)) return false;
            space(r);
            if (r->at >= r->end || *r->at != ':') return wrong(r, "`:`");
            r->at++;
        }
        if (!value(r, element)) return false;
        element->name = name;
        *next = element;
        next = &element->next;
        made->len++;
    }
    r->at++;
    r->depth--;
    return true;
}

static bool value(reader *r, mh_json *made) {
    bool is_good = false;
    space(r);
    switch (r->at < r->end ? *r->at : 0) {
        case '{': is_good = elements(r, made, '}'); break;
        case '[': is_good = elements(r, made, ']'); break;
        case '"':
            made->kind = MH_JSON_STRING;
            is_good = string(r, &made->text);
            break;
        case 't':
            made->kind = MH_JSON_BOOL;
            made->boolean = true;
            is_good = word(r, "true");
            break;
        case 'f':
            made->kind = MH_JSON_BOOL;
            is_good = word(r, "false");
            break;
        case 'n': is_good = word(r, "null"); break;
        case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
            is_good = number(r, made);
            break;
        default: return wrong(r, "a value");
    }
    space(r);
    return is_good;
}

const mh_error *mh_json_read(mh_bytes text, const mh_json **made) {
    const char *begin = (const char *)text.data;
    reader r = {begin, begin, begin + text.len, NULL, 0};
    mh_json *root = mh_alloc(sizeof *root);
    *root = (mh_json){0};
    *made = root;
    space(&r);
    if (r.at == r.end) return mh_invalid("malformed json: the body is empty");
    if (text.len >= 3 && memcmp(begin, "\xef\xbb\xbf", 3) == 0) {
        return mh_invalid("malformed json: the body begins with a byte order mark");
    }
    if (!mh_is_text((mh_str){begin, text.len})) return mh_invalid("malformed json: the body is not UTF-8");
    if (value(&r, root) && r.at < r.end) wrong(&r, "the end");
    return r.error;
}

const mh_json *mh_json_get(const mh_json *object, const char *name) {
    const mh_json *found = NULL;
    mh_str wanted = mh_text(name);
    if (object->kind != MH_JSON_OBJECT) return NULL;
    for (const mh_json *element = object->first; element != NULL; element = element->next) {
        if (mh_equal(element->name, wanted)) found = element;
    }
    return found;
}

/* The type of a value, with the value if it is short. */
static mh_str described(const mh_json *value) {
    switch (value->kind) {
        case MH_JSON_NULL: return mh_text("null");
        case MH_JSON_BOOL: return mh_format("boolean `%s`", value->boolean ? "true" : "false");
        case MH_JSON_NUMBER: return mh_format("number `%.*s`", (int)(value->text.len < 40 ? value->text.len : 40), value->text.data);
        case MH_JSON_STRING: return mh_format("string \"%.*s\"", (int)(value->text.len < 40 ? value->text.len : 40), value->text.data);
        case MH_JSON_ARRAY: return mh_text("sequence");
        default: return mh_text("map");
    }
}

const mh_error *mh_numbers(const mh_sample *sample, size_t count, const char *const *names, float *values) {
    const mh_json *object;
    const mh_error *error = mh_json_read(sample->body, &object);
    if (error != NULL) return error;
    if (object->kind != MH_JSON_OBJECT) {
        mh_str kind = described(object);
        return mh_invalid("invalid type: %.*s, expected an object", (int)kind.len, kind.data);
    }
    for (size_t at = 0; at < count; at++) {
        const mh_json *value = mh_json_get(object, names[at]);
        if (value == NULL) return mh_invalid("missing field `%s`", names[at]);
        if (value->kind != MH_JSON_NUMBER) {
            mh_str kind = described(value);
            return mh_invalid("`%s`: invalid type: %.*s, expected f32", names[at], (int)kind.len, kind.data);
        }
        values[at] = (float)value->number;
        if (isinf(values[at])) return mh_invalid("`%s`: number out of range", names[at]);
    }
    return NULL;
}

/* --- Writing ---------------------------------------------------------------------------------------------------- */

static char *room(mh_json_writer *w, size_t len) {
    if (w->age != mh_memory_age()) {
        /* What it had written is gone with the memory of an earlier call, or message. */
        if (w->len > 0) abort();
        w->capacity = 0;
        w->age = mh_memory_age();
    }
    if (w->capacity - w->len < len) {
        w->capacity = (w->len + len) * 2 + 256;
        char *larger = mh_alloc(w->capacity);
        if (w->len > 0) memcpy(larger, w->data, w->len);
        w->data = larger;
    }
    return w->data + w->len;
}

static void put(mh_json_writer *w, const char *text, size_t len) {
    memcpy(room(w, len), text, len);
    w->len += len;
}

static void before(mh_json_writer *w) {
    if (w->comma) put(w, ",", 1);
    w->comma = true;
}

void mh_write_begin(mh_json_writer *w, char bracket) {
    before(w);
    put(w, &bracket, 1);
    w->comma = false;
}

void mh_write_end(mh_json_writer *w, char bracket) {
    put(w, &bracket, 1);
    w->comma = true;
}

static void quoted(mh_json_writer *w, mh_str text) {
    static const char digits[] = "0123456789abcdef";
    char *to = room(w, text.len * 6 + 2), *start = to;
    *to++ = '"';
    for (size_t at = 0; at < text.len; at++) {
        unsigned char c = (unsigned char)text.data[at];
        if (c == '"' || c == '\\') {
            *to++ = '\\';
            *to++ = (char)c;
        } else if (c < 0x20) {
            memcpy(to, "\\u00", 4);
            to[4] = digits[c >> 4];
            to[5] = digits[c & 15];
            to += 6;
        } else {
            *to++ = (char)c;
        }
    }
    *to++ = '"';
    w->len += (size_t)(to - start);
}

void mh_write_name(mh_json_writer *w, const char *name) {
    before(w);
    quoted(w, mh_text(name));
    put(w, ":", 1);
    w->comma = false;
}

void mh_write_text(mh_json_writer *w, mh_str text) {
    before(w);
    quoted(w, text);
}

static void decimal(mh_json_writer *w, double value, int precision) {
    before(w);
    if (!isfinite(value)) {
        put(w, "null", 4);
        return;
    }
    if (value == (double)(int32_t)value && !(value == 0 && signbit(value))) {
        char text[16], *at = text + sizeof text;
        uint32_t rest = (uint32_t)fabs(value);
        do *--at = (char)('0' + rest % 10);
        while ((rest /= 10) > 0);
        if (value < 0) *--at = '-';
        put(w, at, (size_t)(text + sizeof text - at));
        return;
    }
    w->len += (size_t)snprintf(room(w, 40), 40, "%.*g", precision, value);
}

void mh_write_number(mh_json_writer *w, double value) { decimal(w, value, 17); }

void mh_write_integer(mh_json_writer *w, int64_t value) {
    before(w);
    w->len += (size_t)snprintf(room(w, 24), 24, "%" PRId64, value);
}

void mh_write_unsigned(mh_json_writer *w, uint64_t value) {
    before(w);
    w->len += (size_t)snprintf(room(w, 24), 24, "%" PRIu64, value);
}

/* As many digits as every float is told apart by. */
void mh_write_float(mh_json_writer *w, float value) { decimal(w, value, 9); }

void mh_write_floats(mh_json_writer *w, const float *values, size_t count) {
    mh_write_begin(w, '[');
    for (size_t at = 0; at < count; at++) mh_write_float(w, values[at]);
    mh_write_end(w, ']');
}

void mh_write_bool(mh_json_writer *w, bool value) {
    before(w);
    put(w, value ? "true" : "false", value ? 4 : 5);
}

void mh_write_null(mh_json_writer *w) {
    before(w);
    put(w, "null", 4);
}

mh_response mh_json_response(const mh_json_writer *w) {
    return (mh_response){
        .status = 200,
        .content_type = mh_text("application/json"),
        .body = {(const uint8_t *)w->data, w->len},
    };
}

void mh_add_header(mh_response *response, mh_str name, mh_str value) {
    mh_headers *headers = &response->headers;
    mh_header *wider = mh_alloc((headers->len + 1) * sizeof *wider);
    if (headers->len > 0) memcpy(wider, headers->items, headers->len * sizeof *wider);
    wider[headers->len] = (mh_header){name, value};
    *headers = (mh_headers){wider, headers->len + 1};
}

mh_response mh_refusal(const mh_context *context, uint16_t status, mh_str text, const char *code) {
    mh_json_writer w = {0};
    mh_write_begin(&w, '{');
    mh_write_name(&w, "error");
    mh_write_text(&w, text);
    mh_write_name(&w, "code");
    mh_write_text(&w, mh_text(code));
    mh_write_name(&w, "stage");
    mh_write_text(&w, mh_text("pre_inference"));
    if (context != NULL) {
        mh_write_name(&w, "request_id");
#ifdef __wasm__
        mh_write_text(&w, mh_request_id(context));
#else
        mh_write_text(&w, mh_text("test"));
#endif
    }
    mh_write_end(&w, '}');
    mh_response response = mh_json_response(&w);
    response.status = status;
    return response;
}

mh_response mh_text_response(mh_str text) {
    return (mh_response){
        .status = 200,
        .content_type = mh_text("text/plain; charset=utf-8"),
        .body = {(const uint8_t *)text.data, text.len},
    };
}
