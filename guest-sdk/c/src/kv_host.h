/* The contract's `kv` as the component model has it in a module. In a test, kv_in_tests.c defines its
 * functions. */
#ifndef MODELHOST_KV_HOST_H
#define MODELHOST_KV_HOST_H

#include "internal.h"
#include "modelhost_kv.h"

#ifdef __wasm__
#define KV(name) __attribute__((import_module("modelhost:handler/kv@0.1.0"), import_name(name)))
#else
#define KV(name)
#endif

/* Its errors, in the order of the contract. */
enum { MH_KV_NO_SUCH_BUCKET, MH_KV_INVALID, MH_KV_LIMIT, MH_KV_UNAVAILABLE };

typedef struct {
    uint8_t is_error;
    union {
        int32_t handle;
        uint8_t was;
        struct {
            uint8_t has;
            mh_bytes value;
        } found;
        struct {
            mh_text_list keys;
            mh_optional_text cursor;
        } page;
        mh_store_error error;
    } as;
} mh_kv_result;

typedef struct {
    uint8_t is_error;
    union {
        int64_t sum;
        mh_store_error error;
    } as;
} mh_kv_sum;

#ifdef __wasm__
_Static_assert(sizeof(mh_kv_result) == 24 && offsetof(mh_kv_result, as.page.cursor) == 12, "the result of `keys`");
_Static_assert(sizeof(mh_kv_sum) == 24 && offsetof(mh_kv_sum, as) == 8, "the result of `increment`");
#endif

#define KEY int32_t bucket, const char *key, size_t key_len
#define VALUE const uint8_t *value, size_t len
#define TTL int32_t has_ttl, uint64_t ttl

KV("open") void mh_host_kv_open(const char *name, size_t len, mh_kv_result *result);
KV("[method]bucket.get") void mh_host_kv_get(KEY, mh_kv_result *result);
KV("[method]bucket.set") void mh_host_kv_set(KEY, VALUE, TTL, mh_kv_result *result);
KV("[method]bucket.add") void mh_host_kv_add(KEY, VALUE, TTL, mh_kv_result *result);
KV("[method]bucket.increment") void mh_host_kv_increment(KEY, int64_t by, TTL, mh_kv_sum *result);
KV("[method]bucket.swap")
void mh_host_kv_swap(KEY, int32_t has_current, const uint8_t *current, size_t current_len, VALUE, mh_kv_result *result);
KV("[method]bucket.delete") void mh_host_kv_delete(KEY, mh_kv_result *result);
KV("[method]bucket.keys")
void mh_host_kv_keys(int32_t bucket, const char *prefix, size_t prefix_len, int32_t has_cursor, const char *cursor,
                     size_t cursor_len, uint32_t limit, mh_kv_result *result);
KV("[resource-drop]bucket") void mh_host_kv_drop(int32_t bucket);

#ifndef __wasm__
/* For tests of the SDK: buckets that are open. */
extern size_t mh_host_kv_opened;
#endif

#endif
