/* What the host's containers do, in memory, for tests; but for limits. */
#ifndef __wasm__
#include "blobs_host.h"
#include "in_tests.h"

enum { LONGEST_NAME = 512 };

typedef struct object {
    struct object *next;
    /* Of the container, by its handle. */
    int32_t container;
    mh_str name;
    mh_bytes content;
    uint64_t created;
    bool is_there;
} object;

/* A container, or what is read, written or listed: a handle is a place among them. */
typedef struct handle {
    struct handle *next;
    int32_t number;
    /* Of a container. */
    mh_str name;
    /* What is written; how far it was read, what is left to read, or to list. */
    object *object;
    mh_bytes left;
} handle;

static mh_piece *pieces;
static object *objects;
static handle *handles;
size_t mh_store_opened;

void mh_blobs_forget(void) {
    mh_close_opened();
    objects = NULL;
    handles = NULL;
    mh_free_stored(&pieces);
}

static handle *made(void) {
    handle *one = mh_stored(&pieces, sizeof *one);
    one->next = handles;
    one->number = handles == NULL ? 1 : handles->number + 1;
    handles = one;
    mh_store_opened++;
    return one;
}

static handle *of(int32_t number) {
    handle *each = handles;
    while (each != NULL && each->number != number) each = each->next;
    if (each == NULL) abort();
    return each;
}

static const mh_error *unusable(mh_str name) {
    if (name.len >= 1 && name.len <= LONGEST_NAME) return NULL;
    return mh_internal("a name of %zu bytes, expected 1 to %d", name.len, LONGEST_NAME);
}

static object *found(int32_t container, mh_str name) {
    object *each = objects;
    while (each != NULL && !(each->is_there && each->container == container && mh_equal(each->name, name))) each = each->next;
    return each;
}

const mh_error *mh_store_open(mh_str name, int32_t *container) {
    const handle *each = handles;
    while (each != NULL && !(each->name.data != NULL && mh_equal(each->name, name))) each = each->next;
    if (each == NULL) {
        handle *one = made();
        one->name = mh_stored_text(&pieces, name);
        each = one;
    } else {
        mh_store_opened++;
    }
    *container = each->number;
    return NULL;
}

const mh_error *mh_store_read(int32_t container, mh_str name, uint64_t first, uint64_t last, int32_t *input, uint64_t *size) {
    const mh_error *error = unusable(name);
    const object *stored = error == NULL ? found(container, name) : NULL;
    if (error != NULL) return error;
    if (stored == NULL) return mh_internal("there is no object `%.*s`", (int)name.len, name.data);
    mh_bytes all = stored->content;
    size_t begin = first < all.len ? (size_t)first : all.len, end = last < all.len ? (size_t)last + 1 : all.len;
    handle *one = made();
    one->left = (mh_bytes){all.data + begin, end - begin};
    *input = one->number;
    *size = one->left.len;
    return NULL;
}

const mh_error *mh_store_next(int32_t input, size_t most, mh_bytes *piece) {
    handle *one = of(input);
    size_t len = one->left.len < most ? one->left.len : most;
    uint8_t *copy = mh_alloc(len);
    memcpy(copy, one->left.data, len);
    *piece = (mh_bytes){copy, len};
    one->left = (mh_bytes){one->left.data + len, one->left.len - len};
    return NULL;
}

const mh_error *mh_store_write(int32_t container, mh_str name, int32_t *value, int32_t *output) {
    const mh_error *error = unusable(name);
    if (error != NULL) return error;
    handle *one = made(), *stream = made();
    one->object = stream->object = mh_stored(&pieces, sizeof *one->object);
    *one->object = (object){.container = container, .name = mh_stored_text(&pieces, name)};
    *value = one->number;
    *output = stream->number;
    return NULL;
}

const mh_error *mh_store_add(int32_t output, mh_bytes piece) {
    object *written = of(output)->object;
    mh_bytes before = written->content;
    uint8_t *all = mh_stored(&pieces, before.len + piece.len + 1);
    if (before.len > 0) memcpy(all, before.data, before.len);
    memcpy(all + before.len, piece.data, piece.len);
    written->content = (mh_bytes){all, before.len + piece.len};
    return NULL;
}

const mh_error *mh_store_finish(int32_t value) {
    object *written = of(value)->object;
    mh_store_delete(written->container, written->name);
    if (written->content.data == NULL) written->content = mh_bytes_of(mh_text(""));
    written->created = mh_now() / 1000;
    written->is_there = true;
    written->next = objects;
    objects = written;
    mh_store_opened--;
    return NULL;
}

const mh_error *mh_store_look(int32_t container, mh_str name, mh_blob_info *info) {
    const mh_error *error = unusable(name);
    if (error != NULL) return error;
    const object *stored = found(container, name);
    *info = stored == NULL ? (mh_blob_info){0} : (mh_blob_info){true, stored->content.len, stored->created};
    return NULL;
}

const mh_error *mh_store_delete(int32_t container, mh_str name) {
    const mh_error *error = unusable(name);
    object *stored = error == NULL ? found(container, name) : NULL;
    if (stored != NULL) stored->is_there = false;
    return error;
}

const mh_error *mh_store_clear(int32_t container) {
    for (object *each = objects; each != NULL; each = each->next) {
        if (each->container == container) each->is_there = false;
    }
    return NULL;
}

const mh_error *mh_store_list(int32_t container, int32_t *listing) {
    size_t count = 0;
    for (const object *each = objects; each != NULL; each = each->next) count += each->is_there && each->container == container;
    mh_str *names = mh_stored(&pieces, count * sizeof *names + 1), *end = names;
    for (const object *each = objects; each != NULL; each = each->next) {
        if (each->is_there && each->container == container) *end++ = each->name;
    }
    handle *one = made();
    one->left = (mh_bytes){(const uint8_t *)names, count};
    *listing = one->number;
    return NULL;
}

const mh_error *mh_store_names(int32_t listing, size_t most, mh_text_list *names, bool *is_end) {
    handle *one = of(listing);
    const mh_str *items = (const mh_str *)(const void *)one->left.data;
    size_t len = one->left.len < most ? one->left.len : most;
    *names = (mh_text_list){items, len};
    one->left = (mh_bytes){(const uint8_t *)(items + len), one->left.len - len};
    *is_end = one->left.len == 0;
    return NULL;
}

void mh_store_drop_container(int32_t container) { (void)container, mh_store_opened--; }

void mh_store_drop_input(int32_t input) { (void)input, mh_store_opened--; }

void mh_store_drop_value(int32_t value) { (void)value, mh_store_opened--; }

void mh_store_drop_output(int32_t output) { (void)output, mh_store_opened--; }

void mh_store_drop_listing(int32_t listing) { (void)listing, mh_store_opened--; }
#endif
