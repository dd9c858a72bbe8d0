/* What the host's buckets do, in memory, for tests; but for limits. */
#ifndef __wasm__
#include <errno.h>
#include <inttypes.h>

#include "in_tests.h"
#include "kv_host.h"

enum { LONGEST_KEY = 1024, MOST_KEYS = 1000 };

typedef struct entry {
    struct entry *next;
    mh_str key;
    mh_bytes value;
    /* 0 for none. */
    uint64_t end;
} entry;

/* Its entries are in the order of their keys. */
typedef struct named {
    struct named *next;
    mh_str name;
    int32_t handle;
    entry *entries;
} named;

static mh_piece *pieces;
static named *buckets;
size_t mh_host_kv_opened;

void mh_kv_forget(void) {
    mh_close_opened();
    buckets = NULL;
    mh_free_stored(&pieces);
}

void mh_host_kv_open(const char *name, size_t len, mh_kv_result *result) {
    named *bucket = buckets;
    while (bucket != NULL && !mh_equal(bucket->name, (mh_str){name, len})) bucket = bucket->next;
    if (bucket == NULL) {
        bucket = mh_stored(&pieces, sizeof *bucket);
        bucket->next = buckets;
        bucket->name = mh_stored_text(&pieces, (mh_str){name, len});
        bucket->handle = buckets == NULL ? 1 : buckets->handle + 1;
        buckets = bucket;
    }
    mh_host_kv_opened++;
    *result = (mh_kv_result){.as.handle = bucket->handle};
}

void mh_host_kv_drop(int32_t bucket) {
    (void)bucket;
    mh_host_kv_opened--;
}

static int order(mh_str a, mh_str b) {
    int first = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return first != 0 ? first : (a.len > b.len) - (a.len < b.len);
}

static mh_store_error invalid(const char *text) { return (mh_store_error){MH_KV_INVALID, mh_text(text)}; }

static entry **first(int32_t handle) {
    named *bucket = buckets;
    while (bucket != NULL && bucket->handle != handle) bucket = bucket->next;
    if (bucket == NULL) abort();
    return &bucket->entries;
}

/* The entry of a key, or NULL; and where it is, or would be. What is over is taken out. */
static entry *found(int32_t bucket, mh_str key, entry ***place) {
    entry **at = first(bucket);
    while (*at != NULL && order((*at)->key, key) < 0) at = &(*at)->next;
    if (*at != NULL && mh_equal((*at)->key, key) && (*at)->end != 0 && (*at)->end <= mh_now()) *at = (*at)->next;
    *place = at;
    return *at != NULL && mh_equal((*at)->key, key) ? *at : NULL;
}

static bool is_key(size_t len, uint8_t *is_error, mh_store_error *error) {
    *is_error = len < 1 || len > LONGEST_KEY;
    if (*is_error) *error = invalid(mh_format("a key of %zu bytes, expected 1 to %d", len, LONGEST_KEY).data);
    return !*is_error;
}

static void put(entry **place, mh_str key, mh_bytes value, uint64_t end) {
    if (*place == NULL || !mh_equal((*place)->key, key)) {
        entry *made = mh_stored(&pieces, sizeof *made);
        *made = (entry){.next = *place, .key = mh_stored_text(&pieces, key)};
        *place = made;
    }
    (*place)->value = mh_stored_bytes(&pieces, value);
    (*place)->end = end;
}

/* A copy that lasts until the call is over, as what the host gives does. */
static mh_bytes given(mh_bytes bytes) {
    uint8_t *copy = mh_alloc(bytes.len);
    if (bytes.len > 0) memcpy(copy, bytes.data, bytes.len);
    return (mh_bytes){copy, bytes.len};
}

static uint64_t end_of(int32_t has_ttl, uint64_t ttl) { return has_ttl ? mh_now() + ttl : 0; }

void mh_host_kv_get(KEY, mh_kv_result *result) {
    entry **place;
    if (!is_key(key_len, &result->is_error, &result->as.error)) return;
    const entry *there = found(bucket, (mh_str){key, key_len}, &place);
    result->as.found.has = there != NULL;
    if (there != NULL) result->as.found.value = given(there->value);
}

void mh_host_kv_set(KEY, VALUE, TTL, mh_kv_result *result) {
    entry **place;
    if (!is_key(key_len, &result->is_error, &result->as.error)) return;
    found(bucket, (mh_str){key, key_len}, &place);
    put(place, (mh_str){key, key_len}, (mh_bytes){value, len}, end_of(has_ttl, ttl));
}

void mh_host_kv_add(KEY, VALUE, TTL, mh_kv_result *result) {
    entry **place;
    if (!is_key(key_len, &result->is_error, &result->as.error)) return;
    result->as.was = found(bucket, (mh_str){key, key_len}, &place) == NULL;
    if (result->as.was) put(place, (mh_str){key, key_len}, (mh_bytes){value, len}, end_of(has_ttl, ttl));
}

void mh_host_kv_increment(KEY, int64_t by, TTL, mh_kv_sum *result) {
    entry **place;
    if (!is_key(key_len, &result->is_error, &result->as.error)) return;
    const entry *there = found(bucket, (mh_str){key, key_len}, &place);
    /* A 0 follows what is stored. */
    const char *text = there == NULL ? "0" : (const char *)there->value.data;
    char *end;
    errno = 0;
    int64_t sum = strtoll(text, &end, 10);
    result->is_error = true;
    if (errno != 0 || end == text || (there != NULL && end != text + there->value.len)) {
        result->as.error = invalid("the value is not a whole number of 64 bits");
    } else if (__builtin_add_overflow(sum, by, &sum)) {
        result->as.error = invalid("the sum is beyond 64 bits");
    } else {
        mh_str digits = mh_format("%" PRId64, sum);
        put(place, (mh_str){key, key_len}, mh_bytes_of(digits), there == NULL ? end_of(has_ttl, ttl) : there->end);
        *result = (mh_kv_sum){.as.sum = sum};
    }
}

void mh_host_kv_swap(KEY, int32_t has_current, const uint8_t *current, size_t current_len, VALUE, mh_kv_result *result) {
    entry **place;
    if (!is_key(key_len, &result->is_error, &result->as.error)) return;
    const entry *there = found(bucket, (mh_str){key, key_len}, &place);
    mh_str expected = mh_text_of((mh_bytes){current, current_len});
    result->as.was = there == NULL ? !has_current : has_current && mh_equal(mh_text_of(there->value), expected);
    if (result->as.was) put(place, (mh_str){key, key_len}, (mh_bytes){value, len}, there == NULL ? 0 : there->end);
}

void mh_host_kv_delete(KEY, mh_kv_result *result) {
    entry **place;
    if (!is_key(key_len, &result->is_error, &result->as.error)) return;
    if (found(bucket, (mh_str){key, key_len}, &place) != NULL) *place = (*place)->next;
}

void mh_host_kv_keys(int32_t bucket, const char *prefix, size_t prefix_len, int32_t has_cursor, const char *cursor,
                     size_t cursor_len, uint32_t limit, mh_kv_result *result) {
    size_t most = limit == 0 ? 1 : limit < MOST_KEYS ? limit : MOST_KEYS, count = 0;
    mh_str *keys = mh_alloc(most * sizeof *keys);
    *result = (mh_kv_result){0};
    for (const entry *each = *first(bucket); each != NULL; each = each->next) {
        bool is_over = each->end != 0 && each->end <= mh_now();
        mh_str begin = {each->key.data, prefix_len};
        bool is_meant = each->key.len >= prefix_len && mh_equal(begin, (mh_str){prefix, prefix_len});
        if (is_over || !is_meant || (has_cursor && order(each->key, (mh_str){cursor, cursor_len}) <= 0)) continue;
        if (count == most) {
            result->as.page.cursor = (mh_optional_text){1, keys[count - 1]};
            break;
        }
        keys[count++] = mh_text_of(given(mh_bytes_of(each->key)));
    }
    result->as.page.keys = (mh_text_list){keys, count};
}
#endif
