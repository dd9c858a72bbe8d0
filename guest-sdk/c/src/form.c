/* Bodies of several parts: `multipart/form-data` (RFC 7578, RFC 2046 section 5.1). Hostile; the words and the limits
 * are those of every language's SDK. A boundary with other text behind it is content. Contents are not copied. */
#include "modelhost_form.h"

#include <string.h>

#include "internal.h"

enum { MOST_PARTS = 1000, LONGEST_HEADERS = 8 << 10, LONGEST_BOUNDARY = 70 };

static mh_str from(mh_str text, size_t at) {
    return at < text.len ? (mh_str){text.data + at, text.len - at} : (mh_str){"", 0};
}

static mh_str until(mh_str text, size_t end) { return (mh_str){text.data, end}; }

static bool begins(mh_str text, mh_str with) { return text.len >= with.len && mh_equal(until(text, with.len), with); }

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static mh_str trimmed(mh_str text) {
    while (text.len > 0 && is_blank(text.data[0])) text = from(text, 1);
    while (text.len > 0 && is_blank(text.data[text.len - 1])) text.len--;
    return text;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static bool is(mh_str text, const char *name) {
    if (text.len != strlen(name)) return false;
    for (size_t at = 0; at < text.len; at++) {
        if (lower(text.data[at]) != name[at]) return false;
    }
    return true;
}

/* Where `wanted` begins at or after `at`, or the length. */
static size_t find(mh_str text, size_t at, mh_str wanted) {
    while (at + wanted.len <= text.len) {
        const char *found = memchr(text.data + at, wanted.data[0], text.len - at - wanted.len + 1);
        if (found == NULL) break;
        at = (size_t)(found - text.data);
        if (memcmp(found, wanted.data, wanted.len) == 0) return at;
        at++;
    }
    return text.len;
}

/* What stands before the first of `separator`, with what comes behind it; false if there is none. */
static bool cut(mh_str text, char separator, mh_str *before, mh_str *after) {
    const char *found = text.len == 0 ? NULL : memchr(text.data, separator, text.len);
    size_t at = found == NULL ? text.len : (size_t)(found - text.data);
    *before = until(text, at);
    *after = from(text, at + 1);
    return found != NULL;
}

/* The value of a quoted string whose opening quote is gone. A backslash protects a quote or another backslash
 * alone. */
static bool unquoted(mh_str *rest, mh_str *value) {
    char *plain = mh_alloc(rest->len);
    size_t len = 0;
    for (size_t at = 0; at < rest->len; at++) {
        char c = rest->data[at];
        if (c == '"') {
            *value = (mh_str){plain, len};
            *rest = from(*rest, at + 1);
            return true;
        }
        char next = at + 1 < rest->len ? rest->data[at + 1] : 0;
        if (c == '\\' && (next == '"' || next == '\\')) at++, c = next;
        plain[len++] = c;
    }
    return false;
}

/* The first parameter of this name (RFC 9110, section 5.6.6). */
static bool parameter(mh_str parameters, const char *name, mh_str *value) {
    for (;;) {
        while (parameters.len > 0 && (is_blank(parameters.data[0]) || parameters.data[0] == ';')) {
            parameters = from(parameters, 1);
        }
        mh_str key, after;
        if (!cut(parameters, '=', &key, &after)) return false;
        if (after.len > 0 && after.data[0] == '"') {
            after = from(after, 1);
            if (!unquoted(&after, value)) return false;
        } else {
            mh_str rest = after;
            cut(rest, ';', value, &after);
            *value = trimmed(*value);
        }
        if (is(key, name)) return true;
        parameters = after;
    }
}

/* The value of two hexadecimal digits, or -1. */
static int hex(mh_str text, size_t at) {
    int value = 0;
    for (size_t n = at; n < at + 2; n++) {
        char c = n < text.len ? lower(text.data[n]) : 0;
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

/* The name with what browsers and curl write in place of `"`, CR and LF. */
static mh_str unescaped(mh_str name) {
    char *plain = mh_alloc(name.len);
    size_t len = 0;
    for (size_t at = 0; at < name.len; at++) {
        mh_str rest = from(name, at);
        char c = begins(rest, mh_text("%22"))   ? '"'
                 : begins(rest, mh_text("%0D")) ? '\r'
                 : begins(rest, mh_text("%0A")) ? '\n'
                                                : 0;
        plain[len++] = c != 0 ? c : name.data[at];
        if (c != 0) at += 2;
    }
    return (mh_str){plain, len};
}

/* The text of `UTF-8''na%C3%AFve.txt` (RFC 8187). */
static bool decoded(mh_str extended, mh_str *name) {
    mh_str charset, language, encoded;
    if (!cut(extended, '\'', &charset, &encoded) || !cut(encoded, '\'', &language, &encoded)) return false;
    bool is_latin = is(charset, "iso-8859-1");
    if (!is_latin && !is(charset, "utf-8")) return false;
    char *plain = mh_alloc(2 * encoded.len);
    size_t len = 0;
    for (size_t at = 0; at < encoded.len; at++) {
        int value = encoded.data[at] == '%' ? hex(encoded, at + 1) : -1;
        if (value >= 0) at += 2;
        /* A percent sign without two digits stays. */
        unsigned char byte = value >= 0 ? (unsigned char)value : (unsigned char)encoded.data[at];
        if (is_latin && byte >= 0x80) {
            plain[len++] = (char)(0xc0 | byte >> 6);
            byte = 0x80 | (byte & 63);
        }
        plain[len++] = (char)byte;
    }
    *name = (mh_str){plain, len};
    return mh_is_text(*name);
}

static const mh_error *malformed(const char *text) { return mh_invalid("malformed multipart: %s", text); }

/* The headers of a part, without the empty line. */
static const mh_error *read_headers(mh_str head, mh_part *part) {
    mh_str disposition = {"", 0}, kind, parameters;
    part->content_type = mh_text("text/plain");
    while (head.len > 0) {
        size_t end = find(head, 0, mh_text("\r\n"));
        mh_str line = until(head, end), name, value;
        head = from(head, end + 2);
        if (line.len == 0) continue;
        if (!cut(line, ':', &name, &value)) return malformed("a header without a colon");
        value = trimmed(value);
        if (is(name, "content-disposition")) {
            disposition = value;
        } else if (is(name, "content-type")) {
            part->content_type = value;
        } else if (is(name, "content-transfer-encoding")
                   && !(is(value, "binary") || is(value, "8bit") || is(value, "7bit"))) {
            return malformed("a part with a transfer encoding, which forms do not have");
        }
    }
    cut(disposition, ';', &kind, &parameters);
    if (!is(trimmed(kind), "form-data") || !parameter(parameters, "name", &part->name)) {
        return malformed("a part without `content-disposition: form-data; name=…`");
    }
    part->name = unescaped(part->name);
    mh_str extended;
    if (parameter(parameters, "filename*", &extended)) {
        part->is_file = true;
        if (!decoded(extended, &part->filename)) {
            return malformed("a `filename*` that is not `UTF-8''` and a name with percent signs");
        }
    } else if (parameter(parameters, "filename", &part->filename)) {
        part->is_file = true;
        part->filename = unescaped(part->filename);
    }
    return NULL;
}

/* A part: line end, headers, empty line, contents. */
static const mh_error *read_part(mh_str text, mh_part *part) {
    *part = (mh_part){0};
    size_t window = text.len < LONGEST_HEADERS + 4 ? text.len : LONGEST_HEADERS + 4;
    size_t end = find(until(text, window), 0, mh_text("\r\n\r\n"));
    if (end == window) {
        return mh_invalid("malformed multipart: no end of a part's headers within %d bytes", LONGEST_HEADERS);
    }
    if (!mh_is_text(until(text, end))) return malformed("the headers of a part are not UTF-8");
    part->body = mh_bytes_of(from(text, end + 4));
    return read_headers(until(text, end), part);
}

/* What comes after a boundary. */
typedef enum { NO_BOUNDARY, ANOTHER_PART, THE_END } line_end;

/* Looks at the rest of a boundary's line; `text` begins at the line's end then. */
static line_end end_of_line(mh_str *text) {
    if (begins(*text, mh_text("--"))) return THE_END;
    mh_str rest = *text;
    while (rest.len > 0 && is_blank(rest.data[0])) rest = from(rest, 1);
    if (!begins(rest, mh_text("\r\n"))) return NO_BOUNDARY;
    *text = rest;
    return ANOTHER_PART;
}

/* Takes what stands before the next boundary off `text`. */
static line_end delimited(mh_str *text, mh_str delimiter, mh_str *before) {
    for (size_t at = 0; (at = find(*text, at, delimiter)) < text->len; at += delimiter.len) {
        mh_str rest = from(*text, at + delimiter.len);
        line_end end = end_of_line(&rest);
        if (end == NO_BOUNDARY) continue;
        *before = until(*text, at);
        *text = rest;
        return end;
    }
    return NO_BOUNDARY;
}

static const mh_error *unsupported(mh_str got) {
    size_t len = 0;
    for (size_t letters = 0; len < got.len && letters < 40; letters++) {
        do len++;
        while (len < got.len && ((unsigned char)got.data[len] & 0xc0) == 0x80);
    }
    mh_str text = mh_format("expected `multipart/form-data`, got `%.*s`", (int)len, got.data);
    return mh_respond(mh_refusal(mh_called_with, 415, text, "unsupported_media_type"));
}

const mh_error *mh_multipart(const mh_sample *sample, mh_form *form) {
    mh_str kind, parameters, boundary, text = mh_text_of(sample->body), before;
    *form = (mh_form){NULL, 0};
    cut(sample->content_type, ';', &kind, &parameters);
    kind = trimmed(kind);
    if (!is(kind, "multipart/form-data")) return unsupported(kind);
    if (!parameter(parameters, "boundary", &boundary)) return malformed("the content type has no boundary");
    if (boundary.len < 1 || boundary.len > LONGEST_BOUNDARY) {
        return mh_invalid("malformed multipart: the boundary has not 1 to %d bytes", LONGEST_BOUNDARY);
    }
    mh_str delimiter = mh_format("\r\n--%.*s", (int)boundary.len, boundary.data);
    /* The first delimiter may stand at the very beginning, without the line end before it. */
    line_end end = NO_BOUNDARY;
    if (begins(text, from(delimiter, 2))) {
        mh_str rest = from(text, delimiter.len - 2);
        end = end_of_line(&rest);
        if (end != NO_BOUNDARY) text = rest;
    }
    if (end == NO_BOUNDARY) end = delimited(&text, delimiter, &before);
    if (end == NO_BOUNDARY) return malformed("no boundary is in the body");
    mh_part *parts = NULL;
    size_t len = 0, room = 0;
    while (end == ANOTHER_PART) {
        end = delimited(&text, delimiter, &before);
        if (end == NO_BOUNDARY) return malformed("the last boundary is missing");
        if (len == MOST_PARTS) return mh_invalid("more than %d parts", MOST_PARTS);
        if (len == room) {
            room = room == 0 ? 8 : 2 * room;
            mh_part *wider = mh_alloc(room * sizeof *wider);
            if (len > 0) memcpy(wider, parts, len * sizeof *parts);
            parts = wider;
        }
        const mh_error *error = read_part(before, &parts[len++]);
        if (error != NULL) return error;
    }
    *form = (mh_form){parts, len};
    return NULL;
}

static const mh_part *named(const mh_form *form, const char *name, bool is_file) {
    for (size_t at = 0; at < form->len; at++) {
        const mh_part *part = &form->items[at];
        if (part->is_file == is_file && mh_equal(part->name, mh_text(name))) return part;
    }
    return NULL;
}

const mh_part *mh_form_field(const mh_form *form, const char *name) { return named(form, name, false); }

const mh_part *mh_form_file(const mh_form *form, const char *name) { return named(form, name, true); }

const mh_error *mh_part_text(const mh_part *part, mh_str *text) {
    *text = mh_text_of(part->body);
    if (mh_is_text(*text)) return NULL;
    return mh_invalid("the part `%.*s` is not UTF-8", (int)part->name.len, part->name.data);
}
