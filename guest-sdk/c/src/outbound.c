/* The library `outbound`, as the component model has it in a module. A handler that sends nothing links none
 * of it. */
#include "modelhost_outbound.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

static mh_outbound_function *answer;

void mh_outbound_answer_with(mh_outbound_function *function) { answer = function; }

/* Most bytes of a body that is read whole, and times where none is said, in milliseconds. */
enum { LONGEST = 16 << 20, USUAL_TIMEOUT = 30 * 1000, USUAL_PAUSE = 1000 };

/* The interface's errors. */
enum { DENIED, PROHIBITED, INVALID, TIMED_OUT, FAILED, STATUS };

typedef struct {
    uint8_t kind;
    union {
        mh_str text;
        uint16_t status;
    } as;
} raw_error;

typedef struct {
    uint16_t status;
    mh_headers headers;
    int32_t body;
} raw_response;

/* The results of `send` and `send-webhook`, and that of `read`. */
typedef struct {
    uint8_t is_error;
    union {
        raw_response response;
        raw_error error;
    } as;
} raw_sent;

typedef struct {
    uint8_t is_error;
    union {
        struct {
            uint8_t has;
            mh_bytes bytes;
        } piece;
        raw_error error;
    } as;
} raw_read;

static char lower(char letter) { return letter >= 'A' && letter <= 'Z' ? (char)(letter - 'A' + 'a') : letter; }

#ifdef __wasm__
#define IMPORT(name) __attribute__((import_module("modelhost:outbound/requests@0.1.0"), import_name(name)))

_Static_assert(sizeof(raw_error) == 12 && offsetof(raw_error, as) == 4, "the interface's `error`");
_Static_assert(sizeof(raw_sent) == 20 && offsetof(raw_sent, as.response.body) == 16, "what `send` gives");
_Static_assert(sizeof(raw_read) == 16 && offsetof(raw_read, as.piece.bytes) == 8, "what `read` gives");

IMPORT("send")
void mh_library_send(const char *method, size_t method_len, const char *url, size_t url_len, const mh_header *headers,
                     size_t count, const uint8_t *body, size_t len, uint32_t timeout, raw_sent *sent);
IMPORT("send-webhook")
void mh_library_send_webhook(const char *url, size_t url_len, const uint8_t *json, size_t len, int32_t has_secret,
                             const char *secret, size_t secret_len, uint32_t attempts, uint32_t pause,
                             uint32_t timeout, raw_sent *sent);
IMPORT("[method]body.read") void mh_library_read(int32_t body, raw_read *read);
IMPORT("[resource-drop]body") void mh_library_drop_body(int32_t body);

static const mh_error *ask(const mh_outbound_request *request, raw_sent *sent) {
    mh_library_send(request->method.data, request->method.len, request->url.data, request->url.len,
                    request->headers.items, request->headers.len, request->body.data, request->body.len,
                    request->timeout_ms, sent);
    return NULL;
}

static const mh_error *ask_webhook(const mh_webhook *webhook, raw_sent *sent) {
    mh_library_send_webhook(webhook->url.data, webhook->url.len, webhook->json.data, webhook->json.len,
                            webhook->secret.data != NULL, webhook->secret.data, webhook->secret.len, webhook->attempts,
                            webhook->pause_ms, webhook->timeout_ms, sent);
    return NULL;
}

static void read_next(int32_t body, raw_read *read) { mh_library_read(body, read); }

static void drop(int32_t body) { mh_library_drop_body(body); }
#else
/* A body of a test, in pieces as the library's. */
typedef struct kept {
    struct kept *next;
    int32_t handle;
    size_t at, len;
    uint8_t bytes[];
} kept;

enum { PIECE = 64 * 1024 };

static kept *bodies;
size_t mh_outbound_opened;

/* Headers with names in lower case, and room for one more. */
static mh_headers lowered(mh_headers given) {
    mh_headers made = {mh_alloc((given.len + 1) * sizeof *made.items), given.len};
    for (size_t at = 0; at < given.len; at++) {
        mh_str name = given.items[at].name;
        char *data = mh_alloc(name.len);
        for (size_t letter = 0; letter < name.len; letter++) data[letter] = lower(name.data[letter]);
        made.items[at] = (mh_header){{data, name.len}, given.items[at].value};
    }
    return made;
}

static const mh_error *ask(const mh_outbound_request *request, raw_sent *sent) {
    static int32_t last;
    if (answer == NULL) {
        return mh_outbound_error(MH_REASON_FAILED,
                                 mh_text("the test does not say what others answer: mh_outbound_answer_with"));
    }
    mh_response said = {.status = 200};
    mh_outbound_request given = *request;
    given.headers = lowered(given.headers);
    const mh_error *error = answer(&given, &said);
    if (error != NULL) return error;
    kept *body = malloc(sizeof *body + said.body.len);
    if (body == NULL) abort();
    *body = (kept){.next = bodies, .handle = ++last, .len = said.body.len};
    if (said.body.len > 0) memcpy(body->bytes, said.body.data, said.body.len);
    bodies = body;
    mh_outbound_opened++;
    mh_headers headers = lowered(said.headers);
    if (said.content_type.len > 0) headers.items[headers.len++] = (mh_header){mh_text("content-type"), said.content_type};
    *sent = (raw_sent){.as.response = {said.status, headers, body->handle}};
    return NULL;
}

static kept **place_of(int32_t handle) {
    kept **at = &bodies;
    while (*at != NULL && (*at)->handle != handle) at = &(*at)->next;
    if (*at == NULL) abort();
    return at;
}

static void read_next(int32_t handle, raw_read *read) {
    kept *body = *place_of(handle);
    size_t len = body->len - body->at < PIECE ? body->len - body->at : PIECE;
    uint8_t *piece = mh_alloc(len);
    memcpy(piece, body->bytes + body->at, len);
    body->at += len;
    *read = (raw_read){.as.piece = {len > 0, {piece, len}}};
}

static void drop(int32_t handle) {
    kept **at = place_of(handle), *body = *at;
    *at = body->next;
    free(body);
    mh_outbound_opened--;
}

static const mh_error *ask_webhook(const mh_webhook *webhook, raw_sent *sent) {
    mh_header *typed = mh_alloc(sizeof *typed);
    *typed = (mh_header){mh_text("content-type"), mh_text("application/json")};
    mh_outbound_request request = {
        .method = mh_text("POST"),
        .url = webhook->url,
        .headers = {typed, 1},
        .body = webhook->json,
        .timeout_ms = webhook->timeout_ms,
    };
    const mh_error *error = ask(&request, sent);
    uint16_t status = error == NULL ? sent->as.response.status : 200;
    if (status / 100 != 2) {
        drop(sent->as.response.body);
        *sent = (raw_sent){.is_error = 1, .as.error = {STATUS, {.status = status}}};
    }
    return error;
}
#endif

const mh_error *mh_outbound_error(mh_reason reason, mh_str text) {
    switch (reason) {
        case MH_REASON_DENIED: return mh_because(reason, "`allow_outbound` does not list where the request goes");
        case MH_REASON_PROHIBITED:
            return mh_because(reason, "the name leads to an address that is not of the internet, and not listed itself");
        case MH_REASON_TIMED_OUT: return mh_because(reason, "there was no answer in time");
        case MH_REASON_FAILED: return mh_because(reason, "the request failed: %.*s", (int)text.len, text.data);
        case MH_REASON_TOO_LONG: return mh_because(reason, "the body is longer than %d bytes", LONGEST);
        default: return mh_because(reason, "%.*s", (int)text.len, text.data);
    }
}

static const mh_error *told(const raw_error *error) {
    static const mh_reason reasons[] = {
        MH_REASON_DENIED, MH_REASON_PROHIBITED, MH_REASON_INVALID, MH_REASON_TIMED_OUT, MH_REASON_FAILED,
    };
    if (error->kind == STATUS) {
        unsigned status = error->as.status;
        mh_error *made = (mh_error *)mh_because(MH_REASON_STATUS, "the receiver answered with status %u", status);
        made->status = error->as.status;
        return made;
    }
    bool has_text = error->kind == INVALID || error->kind == FAILED;
    return mh_outbound_error(reasons[error->kind], has_text ? error->as.text : mh_text(""));
}

/* --- Requests ------------------------------------------------------------------------------------------- */

/* The response to what was sent, whose body is open from then on. */
static const mh_error *opened(const raw_sent *sent, mh_outbound_response *response) {
    if (sent->is_error) return told(&sent->as.error);
    const raw_response *made = &sent->as.response;
    mh_opened *body = mh_note_opened(drop, made->body, (mh_str){NULL, 0});
    *response = (mh_outbound_response){made->status, made->headers, body, body->number};
    return NULL;
}

/* Whether it is a name of a header, or a method. */
static bool is_token(mh_str text) {
    for (size_t at = 0; at < text.len; at++) {
        char letter = lower(text.data[at]);
        bool is_of_name = (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
        if (!is_of_name && (letter == 0 || strchr("!#$%&'*+-.^_`|~", letter) == NULL)) return false;
    }
    return text.len > 0;
}

static bool is_value(mh_str text) {
    for (size_t at = 0; at < text.len; at++) {
        unsigned char byte = (unsigned char)text.data[at];
        if ((byte < ' ' && byte != '\t') || byte == 0x7f) return false;
    }
    return mh_is_text(text);
}

static bool begins(mh_str text, const char *start) {
    size_t len = strlen(start);
    return text.len >= len && memcmp(text.data, start, len) == 0;
}

/* An error if the library would refuse it, so that a test sees it too; else NULL. */
static const mh_error *refused(const mh_outbound_request *request) {
    if (!is_token(request->method)) return mh_because(MH_REASON_INVALID, "the method is none");
    if (!mh_is_text(request->url)) return mh_because(MH_REASON_INVALID, "the URL is no UTF-8");
    if (!begins(request->url, "http://") && !begins(request->url, "https://")) {
        return mh_because(MH_REASON_INVALID, "the URL does not begin with `http://` or `https://`");
    }
    for (size_t at = 0; at < request->headers.len; at++) {
        if (!is_token(request->headers.items[at].name) || !is_value(request->headers.items[at].value)) {
            return mh_because(MH_REASON_INVALID, "a header cannot be sent");
        }
    }
    return NULL;
}

const mh_error *mh_outbound_send(const mh_outbound_request *request, mh_outbound_response *response) {
    *response = (mh_outbound_response){0};
    mh_outbound_request given = *request;
    if (given.method.len == 0) given.method = mh_text("GET");
    if (given.timeout_ms == 0) given.timeout_ms = USUAL_TIMEOUT;
    if (given.content_type.len > 0) {
        size_t len = given.headers.len;
        mh_header *headers = mh_alloc((len + 1) * sizeof *headers);
        if (len > 0) memcpy(headers, given.headers.items, len * sizeof *headers);
        headers[len] = (mh_header){mh_text("content-type"), given.content_type};
        given.headers = (mh_headers){headers, len + 1};
    }
    raw_sent sent;
    const mh_error *error = refused(&given);
    if (error == NULL) error = ask(&given, &sent);
    return error != NULL ? error : opened(&sent, response);
}

const mh_error *mh_webhook_send(const mh_webhook *webhook, mh_outbound_response *response) {
    *response = (mh_outbound_response){0};
    mh_webhook given = *webhook;
    if (given.pause_ms == 0) given.pause_ms = USUAL_PAUSE;
    if (given.timeout_ms == 0) given.timeout_ms = USUAL_TIMEOUT;
    if (!mh_is_text(given.secret)) return mh_because(MH_REASON_INVALID, "the secret is no UTF-8");
    if (given.secret.data != NULL && (given.secret.len == 0 || mh_equal(given.secret, mh_text("whsec_")))) {
        return mh_because(MH_REASON_INVALID, "the secret is empty");
    }
    raw_sent sent;
    const mh_error *error = refused(&(mh_outbound_request){.method = mh_text("POST"), .url = given.url});
    if (error == NULL) error = ask_webhook(&given, &sent);
    return error != NULL ? error : opened(&sent, response);
}

/* --- Responses ------------------------------------------------------------------------------------------ */

bool mh_outbound_header(const mh_outbound_response *response, const char *name, mh_str *value) {
    size_t len = strlen(name);
    for (size_t at = 0; at < response->headers.len; at++) {
        mh_str own = response->headers.items[at].name;
        size_t same = 0;
        while (own.len == len && same < len && lower(own.data[same]) == lower(name[same])) same++;
        if (own.len != len || same < len) continue;
        *value = response->headers.items[at].value;
        return true;
    }
    return false;
}

/* The next piece, in the memory of the call; `data` is NULL at the end. */
static const mh_error *next(mh_outbound_response *response, mh_bytes *piece) {
    *piece = (mh_bytes){NULL, 0};
    if (response->body == NULL) return NULL;
    if (!mh_is_open(response->body, response->number)) {
        return mh_outbound_error(MH_REASON_FAILED, mh_text("the response is closed"));
    }
    raw_read read;
    read_next(response->body->handle, &read);
    if (!read.is_error && read.as.piece.has) {
        *piece = read.as.piece.bytes;
        return NULL;
    }
    mh_outbound_close(response);
    return read.is_error ? told(&read.as.error) : NULL;
}

const mh_error *mh_outbound_read(mh_outbound_response *response, mh_bytes *piece) {
    /* A body may have more bytes than there is memory. */
    mh_mark mark = mh_memory();
    mh_bytes made;
    const mh_error *error = next(response, &made);
    *piece = (mh_bytes){NULL, 0};
    if (error != NULL || made.data == NULL) return error;
    void *memory = realloc(response->body->memory, made.len + 1);
    if (memory == NULL) abort();
    response->body->memory = memory;
    if (made.len > 0) memcpy(memory, made.data, made.len);
    *piece = (mh_bytes){memory, made.len};
    mh_give_back(mark);
    return NULL;
}

/* A part of a body until all of it is there, and it is known how long it is. The allocator, whose sizes are
 * powers of two, adds a few bytes. */
enum { BLOCK = 256 * 1024 - 64 };
typedef struct block {
    struct block *next;
    uint8_t bytes[BLOCK];
} block;

/* Adds bytes behind `len` others, and gives where the last block is. */
static block **added(block **last, size_t len, mh_bytes piece) {
    while (piece.len > 0) {
        size_t at = len % BLOCK, size = piece.len < BLOCK - at ? piece.len : BLOCK - at;
        if (at == 0) {
            if (*last != NULL) last = &(*last)->next;
            *last = malloc(sizeof **last);
            if (*last == NULL) abort();
            (*last)->next = NULL;
        }
        memcpy((*last)->bytes + at, piece.data, size);
        piece = (mh_bytes){piece.data + size, piece.len - size};
        len += size;
    }
    return last;
}

static void gather(const block *first, size_t len, uint8_t *whole) {
    for (; len > 0; first = first->next) {
        size_t size = len < BLOCK ? len : BLOCK;
        memcpy(whole, first->bytes, size);
        whole += size;
        len -= size;
    }
}

const mh_error *mh_outbound_read_whole(mh_outbound_response *response, mh_bytes *content) {
    *content = (mh_bytes){NULL, 0};
    block *first = NULL, **last = &first;
    uint8_t *whole = NULL;
    size_t len = 0;
    const mh_error *error;
    for (mh_bytes piece;; len += piece.len) {
        mh_mark mark = mh_memory();
        error = next(response, &piece);
        if (error != NULL || piece.data == NULL) break;
        if (piece.len > LONGEST - len) {
            mh_outbound_close(response);
            error = mh_outbound_error(MH_REASON_TOO_LONG, mh_text(""));
            break;
        }
        bool is_large = whole == NULL && len + piece.len > LONGEST / 2;
        if (is_large) {
            /* For the largest bodies there is no room beside the blocks. */
            whole = mh_alloc(LONGEST);
            gather(first, len, whole);
        }
        if (whole == NULL) {
            last = added(last, len, piece);
        } else if (piece.len > 0) {
            memcpy(whole + len, piece.data, piece.len);
        }
        /* Memory that was taken after the piece stays. */
        if (!is_large) mh_give_back(mark);
    }
    if (error == NULL && whole == NULL) {
        whole = mh_alloc(len);
        gather(first, len, whole);
    }
    while (first != NULL) {
        block *next = first->next;
        free(first);
        first = next;
    }
    if (error == NULL) *content = (mh_bytes){whole, len};
    return error;
}

void mh_outbound_close(mh_outbound_response *response) {
    mh_opened taken;
    if (mh_is_open(response->body, response->number) && mh_take_opened(response->body, &taken)) taken.drop(taken.handle);
    response->body = NULL;
}
