/* Unit tests of buckets, whose values are in memory here. */
#include <string.h>

#include "../src/in_tests.h"
#include "../src/kv_host.h"
#include "check.h"
#include "modelhost_kv.h"

static mh_bytes bytes(const char *text) { return mh_bytes_of(mh_text(text)); }

static mh_bucket opened(const char *name) {
    mh_bucket bucket;
    check(mh_kv_open(name, &bucket) == NULL, "a bucket is opened");
    return bucket;
}

static bool has(mh_bucket bucket, const char *key, const char *expected) {
    mh_bytes value = {NULL, 0};
    check(mh_kv_get(bucket, mh_text(key), &value) == NULL, "a key is read");
    if (expected == NULL) return value.data == NULL;
    return value.data != NULL && mh_equal(mh_text_of(value), mh_text(expected));
}

static bool fails(const mh_error *error, mh_reason reason, const char *text) {
    return error != NULL && mh_reason_of(error) == reason && mh_equal(mh_error_text(error), mh_text(text));
}

static void values_are_set_added_swapped_and_deleted(void) {
    mh_bucket bucket = opened("default");
    bool done = false;
    check(has(bucket, "a", NULL), "no value yet");
    check(mh_kv_set(bucket, mh_text("a"), bytes("one"), 0) == NULL && has(bucket, "a", "one"), "a value");
    check(mh_kv_set(bucket, mh_text("a"), (mh_bytes){NULL, 0}, 0) == NULL && has(bucket, "a", ""), "no bytes are a value");
    check(mh_kv_add(bucket, mh_text("a"), bytes("two"), 0, &done) == NULL && !done, "what is there is not added");
    check(mh_kv_add(bucket, mh_text("b"), bytes("x\xff"), 0, &done) == NULL && done, "what is not there is added");
    check(has(bucket, "b", "x\xff"), "any bytes");
    mh_bytes none = {NULL, 0};
    check(mh_kv_swap(bucket, mh_text("a"), none, bytes("two"), &done) == NULL && !done, "there is a value");
    check(mh_kv_swap(bucket, mh_text("a"), bytes(""), bytes("two"), &done) == NULL && done, "a swap");
    check(mh_kv_swap(bucket, mh_text("c"), none, bytes("new"), &done) == NULL && done, "none is swapped");
    check(has(bucket, "a", "two") && has(bucket, "c", "new"), "the new ones");
    check(mh_kv_delete(bucket, mh_text("c")) == NULL && has(bucket, "c", NULL), "a value is gone");
    check(mh_kv_delete(bucket, mh_text("c")) == NULL, "what is not there is deleted as well");
    check(has(opened("shared/other"), "a", NULL), "buckets are apart");
}

static void numbers_are_added_to(void) {
    mh_bucket bucket = opened("default");
    int64_t sum = 0;
    check(mh_kv_increment(bucket, mh_text("n"), 5, 0, &sum) == NULL && sum == 5, "a new number");
    check(mh_kv_increment(bucket, mh_text("n"), -7, 0, &sum) == NULL && sum == -2 && has(bucket, "n", "-2"), "less");
    const mh_error *error = mh_kv_increment(bucket, mh_text("n"), INT64_MIN, 0, &sum);
    check(fails(error, MH_REASON_INVALID, "the sum is beyond 64 bits"), "too little");
    mh_kv_set(bucket, mh_text("n"), bytes("1x"), 0);
    error = mh_kv_increment(bucket, mh_text("n"), 1, 0, &sum);
    check(fails(error, MH_REASON_INVALID, "the value is not a whole number of 64 bits"), "no number");
}

static void values_live_as_long_as_was_said(void) {
    mh_bucket bucket = opened("default");
    int64_t sum;
    bool done;
    mh_kv_set(bucket, mh_text("short"), bytes("x"), 20);
    mh_kv_set(bucket, mh_text("long"), bytes("x"), 60 * 1000);
    mh_kv_increment(bucket, mh_text("count"), 1, 20, &sum);
    mh_kv_increment(bucket, mh_text("count"), 1, 60 * 1000, &sum);
    check(sum == 2 && has(bucket, "short", "x"), "their time is not over");
    for (uint64_t end = mh_now() + 40; mh_now() < end;) continue;
    mh_text_list keys;
    check(mh_kv_keys(bucket, mh_text("sh"), &keys) == NULL && keys.len == 0, "what is over is not listed");
    check(has(bucket, "short", NULL) && has(bucket, "count", NULL) && has(bucket, "long", "x"), "their time is over");
    check(mh_kv_add(bucket, mh_text("short"), bytes("y"), 0, &done) == NULL && done, "there is a place again");
}

static void keys_are_listed_in_order_and_in_pages(void) {
    mh_bucket bucket = opened("many");
    for (int number = 2499; number >= 0; number--) {
        check(mh_kv_set(bucket, mh_format("n/%04d", number), bytes(""), 0) == NULL, "a key");
    }
    mh_kv_set(bucket, mh_text("other"), bytes(""), 0);
    mh_text_list keys;
    check(mh_kv_keys(bucket, mh_text("n/"), &keys) == NULL && keys.len == 2500, "all keys of a prefix");
    check(mh_equal(keys.items[0], mh_text("n/0000")) && mh_equal(keys.items[2499], mh_text("n/2499")), "in order");
    check(mh_kv_keys(bucket, (mh_str){NULL, 0}, &keys) == NULL && keys.len == 2501, "all keys");
    check(mh_kv_keys(bucket, mh_text("x"), &keys) == NULL && keys.len == 0, "no keys");
    mh_str cursor = {NULL, 0};
    check(mh_kv_page(bucket, mh_text("n/249"), 7, &cursor, &keys) == NULL && keys.len == 7 && cursor.data != NULL, "a page");
    check(mh_kv_page(bucket, mh_text("n/249"), 7, &cursor, &keys) == NULL && keys.len == 3 && cursor.data == NULL, "the last");
}

static void errors_say_which_kind_they_are(void) {
    mh_bucket bucket = opened("default");
    mh_bytes value = {NULL, 0};
    const mh_error *error = mh_kv_get(bucket, mh_text(""), &value);
    check(fails(error, MH_REASON_INVALID, "a key of 0 bytes, expected 1 to 1024"), "no key");
    error = mh_kv_set(bucket, mh_text("\xff"), value, 0);
    check(fails(error, MH_REASON_INVALID, "a name or a key that is no UTF-8"), "no text");
    check(mh_reason_of(mh_internal("x")) == MH_REASON_NONE, "an error of the handler");
    check(mh_reason_of(mh_invalid("x")) == MH_REASON_NONE, "an error of the caller");
    check(mh_reason_of(mh_respond(mh_text_response(mh_text("x")))) == MH_REASON_NONE, "responses");
}

static void buckets_are_open_until_the_call_is_over(void) {
    mh_call_over();
    check(mh_host_kv_opened == 0, "none is open");
    mh_bucket bucket = opened("default"), same = opened("default");
    opened("another");
    check(bucket.handle == same.handle && mh_host_kv_opened == 2, "each is opened once");
    mh_call_over();
    check(mh_host_kv_opened == 0, "all are closed");
    check(has(opened("default"), "a", "two"), "and opened again");
    mh_kv_forget();
    check(mh_host_kv_opened == 0 && has(opened("default"), "a", NULL), "all is forgotten");
}

int main(void) {
    values_are_set_added_swapped_and_deleted();
    numbers_are_added_to();
    values_live_as_long_as_was_said();
    keys_are_listed_in_order_and_in_pages();
    errors_say_which_kind_they_are();
    buckets_are_open_until_the_call_is_over();
    mh_kv_forget();
    return 0;
}
