/* Values that outlive a request, in C: in the buckets that the endpoint grants, `kv = ["default"]`.
 *
 * Nothing has to be freed or closed: what functions give lasts until the call is over, and so does a
 * bucket, which is opened anew in each call. What they are given stays the caller's, and is copied.
 * mh_reason_of() tells why a function has failed. Outside a component, in a test, any bucket is there, its
 * values are in memory, and mh_kv_forget() begins anew.
 */
#ifndef MODELHOST_KV_H
#define MODELHOST_KV_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keys and their values. A key is UTF-8 of 1 to 1024 bytes. `ttl_ms` says for how many milliseconds a value
 * lives; 0 is until it is deleted. */
typedef struct {
    int32_t handle;
} mh_bucket;

/* Opens a bucket until the call is over: `default`, or `shared/sessions` for one that several endpoints are
 * granted. */
const mh_error *mh_kv_open(const char *name, mh_bucket *bucket);
/* The value of a key; its `data` is NULL if there is none, and never else. */
const mh_error *mh_kv_get(mh_bucket bucket, mh_str key, mh_bytes *value);
const mh_error *mh_kv_set(mh_bucket bucket, mh_str key, mh_bytes value, uint64_t ttl_ms);
/* Sets a value if the key is not there, and says whether it did: a lock, or a mark that something is being
 * done. */
const mh_error *mh_kv_add(mh_bucket bucket, mh_str key, mh_bytes value, uint64_t ttl_ms, bool *added);
/* Adds to a number and gives the sum. A key that is not there counts as 0, and `ttl_ms` is for it alone. */
const mh_error *mh_kv_increment(mh_bucket bucket, mh_str key, int64_t by, uint64_t ttl_ms, int64_t *sum);
/* Sets a value if the present one is `current`, as mh_kv_get() gives it, and says whether it did. Its end
 * stays as it is. */
const mh_error *mh_kv_swap(mh_bucket bucket, mh_str key, mh_bytes current, mh_bytes value, bool *swapped);
/* Removes a key, whether it is there or not. */
const mh_error *mh_kv_delete(mh_bucket bucket, mh_str key);
/* All keys that begin with `prefix`, in the order of their bytes. */
const mh_error *mh_kv_keys(mh_bucket bucket, mh_str prefix, mh_text_list *keys);
/* At most `limit` of them, and at most 1000, behind the cursor: a text whose `data` is NULL for the first
 * call. It is set to the next one, whose `data` is NULL if there are no more. */
const mh_error *mh_kv_page(mh_bucket bucket, mh_str prefix, uint32_t limit, mh_str *cursor, mh_text_list *keys);

/* For tests: forgets all values, and frees their memory. */
void mh_kv_forget(void);

#ifdef __cplusplus
}
#endif

#endif
