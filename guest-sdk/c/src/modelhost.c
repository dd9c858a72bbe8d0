/* Memory of a call, errors, tensors. */
#include "modelhost.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

const mh_context *mh_called_with;

/* --- Memory: blocks in which one call's allocations lie one after another --------------------------------------- */

typedef struct block {
    struct block *next;
    size_t used, size;
} block;

enum { BLOCK = 64 * 1024, ALIGN = 16 };
#define HEADER ((sizeof(block) + ALIGN - 1) / ALIGN * ALIGN)

static block *blocks;
static uint32_t age = 1;

void *mh_alloc(size_t size) {
    if (size > SIZE_MAX / 2) abort();
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (blocks == NULL || blocks->size - blocks->used < size) {
        size_t room = size > BLOCK - HEADER ? size : BLOCK - HEADER;
        block *made = malloc(HEADER + room);
        if (made == NULL) abort();
        made->next = blocks;
        made->used = 0;
        made->size = room;
        blocks = made;
    }
    void *start = (char *)blocks + HEADER + blocks->used;
    blocks->used += size;
    return start;
}

mh_mark mh_memory(void) { return (mh_mark){blocks, blocks == NULL ? 0 : blocks->used}; }

void mh_give_back(mh_mark mark) {
    while (blocks != mark.block) {
        block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
    if (blocks == NULL) return;
#ifndef __wasm__
    /* What a test still reads of it is seen. */
    memset((char *)blocks + HEADER + mark.used, 0xDD, blocks->used - mark.used);
#endif
    blocks->used = mark.used;
}

void mh_end_message(mh_mark mark) {
    mh_give_back(mark);
    age++;
}

uint32_t mh_memory_age(void) { return age; }

static mh_opened *opened;

const mh_opened *mh_find_opened(void (*drop)(int32_t handle), mh_str name) {
    const mh_opened *each = opened;
    while (each != NULL && !(each->drop == drop && mh_equal(each->name, name))) each = each->next;
    return each;
}

mh_opened *mh_note_opened(void (*drop)(int32_t handle), int32_t handle, mh_str name) {
    static uint64_t last;
    mh_opened *made = malloc(sizeof *made + name.len);
    if (made == NULL) abort();
    char *own_name = (char *)(made + 1);
    if (name.len > 0) memcpy(own_name, name.data, name.len);
    *made = (mh_opened){opened, drop, handle, {own_name, name.len}, NULL, ++last};
    opened = made;
    return made;
}

bool mh_is_open(const mh_opened *one, uint64_t number) {
    const mh_opened *each = opened;
    while (each != NULL && each != one) each = each->next;
    return each != NULL && each->number == number;
}

bool mh_take_opened(const mh_opened *one, mh_opened *taken) {
    mh_opened **at = &opened;
    while (*at != NULL && *at != one) at = &(*at)->next;
    if (*at == NULL) return false;
    *taken = **at;
    free(*at);
    free(taken->memory);
    *at = taken->next;
    taken->name = (mh_str){NULL, 0};
    taken->memory = NULL;
    return true;
}

uint32_t mh_inits;

void mh_close_opened(void) {
    while (opened != NULL) {
        mh_opened *last = opened;
        opened = last->next;
        last->drop(last->handle);
        free(last->memory);
        free(last);
    }
}

void mh_call_over(void) {
#ifndef __wasm__
    /* In a test nothing has closed it before. */
    mh_close_opened();
#endif
    age++;
    /* One block of the usual size stays for the next call. */
    block *kept = NULL;
    while (blocks != NULL) {
        block *next = blocks->next;
        if (kept == NULL && blocks->size == BLOCK - HEADER) {
            kept = blocks;
            kept->next = NULL;
            kept->used = 0;
        } else {
            free(blocks);
        }
        blocks = next;
    }
    blocks = kept;
}

#ifdef __wasm__
/* What the host gives lasts as long as the call. The adapter for WASI's functions has a page of its own. */
MH_EXPORT("cabi_realloc") void *mh_cabi_realloc(void *old, size_t old_size, size_t align, size_t size);
void *mh_cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)align;
    void *made = mh_alloc(size);
    if (old_size > 0) memcpy(made, old, old_size < size ? old_size : size);
    return made;
}
#endif

/* --- Text ------------------------------------------------------------------------------------------------------- */

mh_str mh_text(const char *text) { return (mh_str){text, strlen(text)}; }

bool mh_equal(mh_str a, mh_str b) { return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0); }

mh_str mh_keep(mh_str text) {
    char *copy = malloc(text.len + 1);
    if (copy == NULL) abort();
    if (text.len > 0) memcpy(copy, text.data, text.len);
    copy[text.len] = 0;
    return (mh_str){copy, text.len};
}

mh_bytes mh_bytes_of(mh_str text) { return (mh_bytes){(const uint8_t *)text.data, text.len}; }

mh_str mh_text_of(mh_bytes bytes) { return (mh_str){(const char *)bytes.data, bytes.len}; }

static mh_str formatted(const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    int len = vsnprintf(NULL, 0, format, arguments);
    if (len < 0) len = 0;
    char *text = mh_alloc((size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    return (mh_str){text, (size_t)len};
}

mh_str mh_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mh_str text = formatted(format, arguments);
    va_end(arguments);
    return text;
}

void mh_append(mh_growing_list *texts, mh_text_list page) {
    if (texts->room - texts->len < page.len) {
        texts->room = 2 * texts->len + page.len;
        mh_str *more = mh_alloc(texts->room * sizeof *more);
        if (texts->len > 0) memcpy(more, texts->items, texts->len * sizeof *more);
        texts->items = more;
    }
    if (page.len > 0) memcpy(texts->items + texts->len, page.items, page.len * sizeof *page.items);
    texts->len += page.len;
}

/* --- Errors ----------------------------------------------------------------------------------------------------- */

/* The length of the character at the beginning; 0 if its bytes are no UTF-8 (RFC 3629, section 4). */
static size_t character(const unsigned char *at, size_t left) {
    if (at[0] < 0x80) return 1;
    size_t len = at[0] >= 0xF0 ? 4 : at[0] >= 0xE0 ? 3 : 2;
    if (at[0] < 0xC2 || at[0] > 0xF4 || len > left) return 0;
    for (size_t next = 1; next < len; next++) {
        if ((at[next] & 0xC0) != 0x80) return 0;
    }
    bool is_too_long = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    bool is_none = (at[0] == 0xED && at[1] > 0x9F) || (at[0] == 0xF4 && at[1] > 0x8F);
    return is_too_long || is_none ? 0 : len;
}

bool mh_is_text(mh_str text) {
    for (size_t at = 0, len; at < text.len; at += len) {
        len = character((const unsigned char *)text.data + at, text.len - at);
        if (len == 0) return false;
    }
    return true;
}

/* The text of an error may have parts of a request in it, and the host takes no text but UTF-8. */
static const mh_error *error_of(uint8_t kind, mh_reason reason, mh_str text) {
    char *data = (char *)text.data;
    for (size_t at = 0, len; at < text.len; at += len) {
        len = character((const unsigned char *)data + at, text.len - at);
        if (len == 0) {
            data[at] = '?';
            len = 1;
        }
    }
    mh_error *error = mh_alloc(sizeof *error);
    error->kind = kind;
    error->reason = (uint8_t)reason;
    error->status = 0;
    error->as.text = text;
    return error;
}

const mh_error *mh_invalid(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mh_str text = formatted(format, arguments);
    va_end(arguments);
    return error_of(MH_ERROR_INVALID, MH_REASON_NONE, text);
}

const mh_error *mh_internal(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mh_str text = formatted(format, arguments);
    va_end(arguments);
    return error_of(MH_ERROR_INTERNAL, MH_REASON_NONE, text);
}

const mh_error *mh_because(mh_reason reason, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    mh_str text = formatted(format, arguments);
    va_end(arguments);
    return error_of(MH_ERROR_INTERNAL, reason, text);
}

const mh_error *mh_respond(mh_response response) {
    mh_error *error = mh_alloc(sizeof *error);
    error->kind = MH_ERROR_RESPOND;
    error->reason = MH_REASON_NONE;
    error->status = 0;
    error->as.response = response;
    return error;
}

mh_str mh_error_text(const mh_error *error) {
    return error->kind == MH_ERROR_RESPOND ? mh_text_of(error->as.response.body) : error->as.text;
}

mh_reason mh_reason_of(const mh_error *error) { return (mh_reason)error->reason; }

uint16_t mh_status_of(const mh_error *error) { return error->status; }

/* --- Tensors ---------------------------------------------------------------------------------------------------- */

size_t mh_size_of(mh_datatype datatype) {
    static const uint8_t sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 0};
    return datatype < sizeof sizes ? sizes[datatype] : 0;
}

uint64_t mh_count(const mh_tensor *tensor) {
    uint64_t count = 1;
    for (size_t axis = 0; axis < tensor->shape.len; axis++) count *= tensor->shape.data[axis];
    return count;
}

mh_tensor mh_tensor_of(mh_datatype datatype, const void *values, const uint64_t *shape, size_t rank) {
    uint64_t *extents = mh_alloc(rank * sizeof *extents);
    if (rank > 0) memcpy(extents, shape, rank * sizeof *extents);
    mh_tensor tensor = {.name = {"", 0}, .datatype = datatype, .shape = {extents, rank}, .data = {values, 0}};
    tensor.data.len = (size_t)mh_count(&tensor) * mh_size_of(datatype);
    return tensor;
}

mh_tensor mh_tensor_of_texts(const mh_str *texts, size_t count) {
    size_t len = 0;
    for (size_t at = 0; at < count; at++) len += 4 + texts[at].len;
    uint8_t *data = mh_alloc(len), *end = data;
    for (size_t at = 0; at < count; at++) {
        uint32_t own = (uint32_t)texts[at].len;
        for (int byte = 0; byte < 4; byte++) *end++ = (uint8_t)(own >> (8 * byte));
        if (own > 0) memcpy(end, texts[at].data, own);
        end += own;
    }
    uint64_t *extent = mh_alloc(sizeof *extent);
    *extent = count;
    return (mh_tensor){.name = {"", 0}, .datatype = MH_BYTES, .shape = {extent, 1}, .data = {data, len}};
}

const void *mh_values(const mh_tensor *tensor, mh_datatype datatype) {
    size_t size = mh_size_of(datatype);
    if (tensor->datatype != datatype || size == 0 || mh_count(tensor) * size != tensor->data.len) return NULL;
    return tensor->data.data;
}

const float *mh_floats(const mh_tensor *tensor) { return mh_values(tensor, MH_FP32); }

const mh_str *mh_texts(const mh_tensor *tensor, size_t *count) {
    uint64_t elements = mh_count(tensor);
    /* Each has its length in front. */
    if (tensor->datatype != MH_BYTES || elements > tensor->data.len / 4) return NULL;
    mh_str *texts = mh_alloc((size_t)elements * sizeof *texts);
    const uint8_t *at = tensor->data.data, *end = at + tensor->data.len;
    for (size_t index = 0; index < elements; index++) {
        if (end - at < 4) return NULL;
        uint32_t len = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        at += 4;
        if (len > (size_t)(end - at)) return NULL;
        texts[index] = (mh_str){(const char *)at, len};
        at += len;
    }
    *count = (size_t)elements;
    return texts;
}

mh_tensors mh_one(mh_tensor tensor) {
    mh_tensor *items = mh_alloc(sizeof *items);
    *items = tensor;
    return (mh_tensors){items, 1};
}

const mh_tensor *mh_named(mh_tensors tensors, const char *name) {
    for (size_t at = 0; at < tensors.len; at++) {
        if (mh_equal(tensors.items[at].name, mh_text(name))) return &tensors.items[at];
    }
    return NULL;
}

size_t mh_argmax(const float *values, size_t count) {
    size_t best = count;
    for (size_t at = 0; at < count; at++) {
        if (!isnan(values[at]) && (best == count || values[at] > values[best])) best = at;
    }
    return best;
}

float mh_from_bfloat16(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t mh_to_bfloat16(float value) {
    if (isnan(value)) return 0x7fc0;
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

float mh_from_half(uint16_t bits) {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexpf((float)fraction, -24)
                                 : ldexpf((float)(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -size : size;
}

uint16_t mh_to_half(float value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    float size = fabsf(value);
    if (isnan(value)) return 0x7e00;
    /* Half a unit beyond the largest begins infinity. */
    if (size >= 65520) return sign | 0x7c00;
    if (size < 0x1p-14f) return sign | (uint16_t)rintf(ldexpf(size, 24));
    int exponent;
    frexpf(size, &exponent);
    return (uint16_t)(sign | (((exponent + 13) << 10) + (int)rintf(ldexpf(size, 11 - exponent))));
}
