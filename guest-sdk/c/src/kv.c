/* Buckets. A handler that opens none links none of it. */
#include "kv_host.h"

static const mh_error *told(mh_store_error error) {
    int len = (int)error.text.len;
    const char *text = error.text.data;
    switch (error.kind) {
        case MH_KV_NO_SUCH_BUCKET:
            return mh_because(MH_REASON_NO_SUCH_BUCKET, "the endpoint grants no bucket `%.*s`", len, text);
        case MH_KV_INVALID: return mh_because(MH_REASON_INVALID, "%.*s", len, text);
        case MH_KV_LIMIT: return mh_because(MH_REASON_LIMIT, "%.*s", len, text);
        default: return mh_because(MH_REASON_UNAVAILABLE, "the store cannot be used: %.*s", len, text);
    }
}

static const mh_error *readable(mh_str text) {
    return mh_is_text(text) ? NULL : mh_because(MH_REASON_INVALID, "a name or a key that is no UTF-8");
}

const mh_error *mh_kv_open(const char *name, mh_bucket *bucket) {
    mh_str asked = mh_format("%s", name);
    const mh_error *error = readable(asked);
    if (error != NULL) return error;
    const mh_opened *opened = mh_find_opened(mh_host_kv_drop, asked);
    if (opened == NULL) {
        mh_kv_result result;
        mh_host_kv_open(asked.data, asked.len, &result);
        if (result.is_error) return told(result.as.error);
        opened = mh_note_opened(mh_host_kv_drop, result.as.handle, asked);
    }
    *bucket = (mh_bucket){opened->handle};
    return NULL;
}

const mh_error *mh_kv_get(mh_bucket bucket, mh_str key, mh_bytes *value) {
    const mh_error *error = readable(key);
    if (error != NULL) return error;
    mh_kv_result result;
    mh_host_kv_get(bucket.handle, key.data, key.len, &result);
    if (result.is_error) return told(result.as.error);
    *value = result.as.found.has ? result.as.found.value : (mh_bytes){NULL, 0};
    if (result.as.found.has && value->len == 0) *value = mh_bytes_of(mh_text(""));
    return NULL;
}

const mh_error *mh_kv_set(mh_bucket bucket, mh_str key, mh_bytes value, uint64_t ttl_ms) {
    const mh_error *error = readable(key);
    if (error != NULL) return error;
    mh_kv_result result;
    mh_host_kv_set(bucket.handle, key.data, key.len, value.data, value.len, ttl_ms != 0, ttl_ms, &result);
    return result.is_error ? told(result.as.error) : NULL;
}

const mh_error *mh_kv_add(mh_bucket bucket, mh_str key, mh_bytes value, uint64_t ttl_ms, bool *added) {
    const mh_error *error = readable(key);
    if (error != NULL) return error;
    mh_kv_result result;
    mh_host_kv_add(bucket.handle, key.data, key.len, value.data, value.len, ttl_ms != 0, ttl_ms, &result);
    if (result.is_error) return told(result.as.error);
    *added = result.as.was != 0;
    return NULL;
}

const mh_error *mh_kv_increment(mh_bucket bucket, mh_str key, int64_t by, uint64_t ttl_ms, int64_t *sum) {
    const mh_error *error = readable(key);
    if (error != NULL) return error;
    mh_kv_sum result;
    mh_host_kv_increment(bucket.handle, key.data, key.len, by, ttl_ms != 0, ttl_ms, &result);
    if (result.is_error) return told(result.as.error);
    *sum = result.as.sum;
    return NULL;
}

const mh_error *mh_kv_swap(mh_bucket bucket, mh_str key, mh_bytes current, mh_bytes value, bool *swapped) {
    const mh_error *error = readable(key);
    if (error != NULL) return error;
    mh_kv_result result;
    mh_host_kv_swap(bucket.handle, key.data, key.len, current.data != NULL, current.data, current.len, value.data, value.len,
                    &result);
    if (result.is_error) return told(result.as.error);
    *swapped = result.as.was != 0;
    return NULL;
}

const mh_error *mh_kv_delete(mh_bucket bucket, mh_str key) {
    const mh_error *error = readable(key);
    if (error != NULL) return error;
    mh_kv_result result;
    mh_host_kv_delete(bucket.handle, key.data, key.len, &result);
    return result.is_error ? told(result.as.error) : NULL;
}

const mh_error *mh_kv_page(mh_bucket bucket, mh_str prefix, uint32_t limit, mh_str *cursor, mh_text_list *keys) {
    const mh_error *error = readable(prefix);
    if (error == NULL) error = readable(*cursor);
    if (error != NULL) return error;
    mh_kv_result result;
    mh_host_kv_keys(bucket.handle, prefix.data, prefix.len, cursor->data != NULL, cursor->data, cursor->len, limit, &result);
    if (result.is_error) return told(result.as.error);
    *keys = result.as.page.keys;
    *cursor = result.as.page.cursor.has ? result.as.page.cursor.text : (mh_str){NULL, 0};
    return NULL;
}

const mh_error *mh_kv_keys(mh_bucket bucket, mh_str prefix, mh_text_list *keys) {
    mh_str cursor = {NULL, 0};
    mh_growing_list all = {NULL, 0, 0};
    do {
        mh_text_list page;
        const mh_error *error = mh_kv_page(bucket, prefix, UINT32_MAX, &cursor, &page);
        if (error != NULL) return error;
        mh_append(&all, page);
    } while (cursor.data != NULL);
    *keys = (mh_text_list){all.items, all.len};
    return NULL;
}
