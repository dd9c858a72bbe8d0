// What JavaScript finds of the web's platform: what takes the system in C, the rest in `web.js`, `forms.js` and `fetch.js`.

#include "engine.h"

#include <time.h>
#include <unistd.h>

bool is_seeded;
JSValue fire_timers, drop_timers, host_error;

static JSValue print(JSContext *ctx, JSValueConst this, int count, JSValueConst *values, int stream) {
    (void)this, (void)count;
    size_t length;
    const char *text = JS_ToCStringLen(ctx, &length, values[0]);
    if (!text) return JS_EXCEPTION;
    while (length) {
        ssize_t written = write(stream, text, length);
        if (written <= 0) break;
        text += written, length -= written;
    }
    return JS_UNDEFINED;
}

static JSValue now(JSContext *ctx, JSValueConst this, int count, JSValueConst *values) {
    (void)this, (void)count, (void)values;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return JS_NewFloat64(ctx, time.tv_sec * 1e3 + time.tv_nsec / 1e6);
}

static JSValue fill_random(JSContext *ctx, JSValueConst this, int count, JSValueConst *values) {
    (void)this, (void)count;
    size_t length;
    uint8_t *bytes = JS_GetUint8Array(ctx, &length, values[0]);
    if (!bytes) return JS_EXCEPTION;
    for (size_t at = 0; at < length; at += 256) getentropy(bytes + at, length - at < 256 ? length - at : 256);
    return JS_UNDEFINED;
}

/// Numbers between 0 and 1, by xorshift64*; the seed is drawn by each instance, never kept in a copy of memory.
static JSValue random_number(JSContext *ctx, JSValueConst this, int count, JSValueConst *values) {
    (void)this, (void)count, (void)values;
    static uint64_t state;
    if (!is_seeded) {
        getentropy(&state, sizeof state);
        state |= 1;
        is_seeded = true;
    }
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return JS_NewFloat64(ctx, (state * 0x2545f4914f6cdd1d >> 11) * 0x1p-53);
}

static JSValue encode(JSContext *ctx, JSValueConst this, int count, JSValueConst *values) {
    (void)this, (void)count;
    uint32_t mark = kept_count, text, length;
    JSValue bytes = lowered_text(values[0], &text, &length) ? JS_EXCEPTION : JS_NewUint8ArrayCopy(ctx, (const uint8_t *)text, length);
    let_go(mark);
    return bytes;
}

/// The first byte that is no UTF-8, or the length.
static size_t valid_until(const uint8_t *text, size_t length) {
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        if (length - at >= 8 && (memcpy(&eight, text + at, 8), !(eight & 0x8080808080808080))) {
            at += 8;
            continue;
        }
        uint8_t c = text[at];
        size_t more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 4;
        if (more == 4 || length - at <= more) return at;
        for (size_t n = 1; n <= more; n++) {
            uint8_t d = text[at + n];
            uint8_t least = n > 1 ? 0x80 : c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
            uint8_t most = n > 1 ? 0xbf : c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
            if (d < least || d > most) return at;
        }
        at += more + 1;
    }
    return at;
}

/// Bytes of a character that begins here and breaks off, which one U+FFFD stands for.
static size_t broken_length(const uint8_t *text, size_t length) {
    uint8_t c = text[0];
    size_t more = c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 0, n = 1;
    for (; n <= more && n < length; n++) {
        uint8_t least = n > 1 ? 0x80 : c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        uint8_t most = n > 1 ? 0xbf : c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        if (text[n] < least || text[n] > most) break;
    }
    return n;
}

/// The text of bytes some of which are no UTF-8, U+FFFD in their place: the engine would count them otherwise.
static JSValue replaced(JSContext *ctx, const uint8_t *bytes, size_t length) {
    // No byte becomes more than the three of U+FFFD.
    char *text = js_malloc(ctx, 3 * length);
    if (!text) return JS_EXCEPTION;
    size_t end = 0;
    for (size_t at = 0; at < length;) {
        size_t valid = valid_until(bytes + at, length - at);
        memcpy(text + end, bytes + at, valid);
        at += valid, end += valid;
        if (at == length) break;
        memcpy(text + end, "\xef\xbf\xbd", 3);
        end += 3;
        at += broken_length(bytes + at, length - at);
    }
    JSValue made = JS_NewStringLen(ctx, text, end);
    js_free(ctx, text);
    return made;
}

/// The text of bytes; undefined if they are no UTF-8 and it is asked for.
static JSValue decode(JSContext *ctx, JSValueConst this, int count, JSValueConst *values) {
    (void)this, (void)count;
    size_t length;
    const uint8_t *bytes = JS_GetUint8Array(ctx, &length, values[0]);
    if (!bytes) return JS_EXCEPTION;
    if (valid_until(bytes, length) < length) return JS_ToBool(ctx, values[1]) ? JS_UNDEFINED : replaced(ctx, bytes, length);
    return JS_NewStringLen(ctx, (const char *)bytes, length);
}

static const char web[] = {
#embed "web.js"
    , 0};
static const char forms[] = {
#embed "forms.js"
    , 0};
static const char fetch[] = {
#embed "fetch.js"
    , 0};

/// Runs a script that is a function.
static JSValue ran(const char *script, size_t length, const char *name, int count, JSValueConst *arguments) {
    JSValue function = JS_Eval(context, script, length, name, JS_EVAL_TYPE_GLOBAL);
    JSValue value = JS_Call(context, function, JS_UNDEFINED, count, arguments);
    JS_FreeValue(context, function);
    return value;
}

void make_platform(void) {
    JSValue native = JS_NewObject(context);
    JS_SetPropertyStr(context, native, "out", JS_NewCFunctionMagic(context, print, "out", 1, JS_CFUNC_generic_magic, 1));
    JS_SetPropertyStr(context, native, "err", JS_NewCFunctionMagic(context, print, "err", 1, JS_CFUNC_generic_magic, 2));
    JS_SetPropertyStr(context, native, "now", JS_NewCFunction(context, now, "now", 0));
    JS_SetPropertyStr(context, native, "fillRandom", JS_NewCFunction(context, fill_random, "fillRandom", 1));
    JS_SetPropertyStr(context, native, "random", JS_NewCFunction(context, random_number, "random", 0));
    JS_SetPropertyStr(context, native, "encode", JS_NewCFunction(context, encode, "encode", 1));
    JS_SetPropertyStr(context, native, "decode", JS_NewCFunction(context, decode, "decode", 2));
    JSValue own = ran(web, sizeof web - 1, "web.js", 1, (JSValueConst[]){native});
    JS_FreeValue(context, native);
    fire_timers = JS_GetPropertyStr(context, own, "fireTimers");
    drop_timers = JS_GetPropertyStr(context, own, "dropTimers");
    host_error = JS_GetPropertyStr(context, own, "hostError");
    // Of `web.js`, and of `forms.js` what `fetch.js` gets besides: `encoded`.
    JSValue given[] = {
        JS_GetPropertyStr(context, own, "define"),
        JS_GetPropertyStr(context, own, "bytesOf"),
        JS_GetPropertyStr(context, own, "joined"),
        JS_UNDEFINED,
    };
    given[3] = ran(forms, sizeof forms - 1, "forms.js", 3, given);
    JS_FreeValue(context, ran(fetch, sizeof fetch - 1, "fetch.js", 4, given));
    for (int at = 0; at < 4; at++) JS_FreeValue(context, given[at]);
    JS_FreeValue(context, own);
}
