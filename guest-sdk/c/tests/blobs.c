/* Unit tests of objects, which are in memory here. */
#include <string.h>

#include "../src/blobs_host.h"
#include "check.h"
#include "modelhost_blobs.h"

static mh_bytes bytes(const char *text) { return mh_bytes_of(mh_text(text)); }

static mh_container opened(const char *name) {
    mh_container container;
    check(mh_blob_open(name, &container) == NULL, "a container is opened");
    return container;
}

static bool has(mh_container container, const char *name, const char *expected) {
    mh_bytes content;
    check(mh_blob_get(container, mh_text(name), &content) == NULL, "an object is read");
    return expected == NULL ? content.data == NULL : content.data != NULL && mh_equal(mh_text_of(content), mh_text(expected));
}

static void objects_are_written_and_read(void) {
    mh_container container = opened("default");
    mh_bytes content;
    mh_blob_info info;
    check(has(container, "a", NULL), "no object yet");
    check(mh_blob_set(container, mh_text("a"), bytes("0123456789")) == NULL, "an object is set");
    check(has(container, "a", "0123456789") && has(opened("shared/other"), "a", NULL), "containers are apart");
    static const struct {
        uint64_t start, end;
        const char *expected;
    } ranges[] = {{2, 4, "23"}, {8, 99, "89"}, {5, 5, ""}, {99, 100, ""}, {0, 10, "0123456789"}};
    for (size_t at = 0; at < sizeof ranges / sizeof *ranges; at++) {
        check(mh_blob_get_range(container, mh_text("a"), ranges[at].start, ranges[at].end, &content) == NULL, "a range");
        check(content.data != NULL && mh_equal(mh_text_of(content), mh_text(ranges[at].expected)), ranges[at].expected);
    }
    check(mh_blob_get_range(container, mh_text("b"), 0, 0, &content) == NULL && content.data == NULL, "no object");
    check(mh_blob_set(container, mh_text("a"), (mh_bytes){NULL, 0}) == NULL && has(container, "a", ""), "no bytes");
    check(mh_blob_look(container, mh_text("a"), &info) == NULL && info.is_there, "it is there");
    check(info.size == 0 && info.created > 0, "its size and age");
    check(mh_blob_look(container, mh_text("b"), &info) == NULL && !info.is_there, "no info");
    check(mh_blob_delete(container, mh_text("a")) == NULL && has(container, "a", NULL), "it is gone");
    const mh_error *error = mh_blob_set(container, mh_text(""), bytes("x"));
    check(error != NULL && mh_equal(mh_error_text(error), mh_text("a name of 0 bytes, expected 1 to 512")), "no name");
    check(mh_reason_of(mh_blob_get(container, mh_text("\xff"), &content)) == MH_REASON_INVALID, "no text");
}

static void objects_go_piece_by_piece(void) {
    mh_container container = opened("default");
    static uint8_t piece[100 * 1000], buffer[300 * 1000];
    mh_blob_writer writer;
    mh_blob_reader reader;
    check(mh_blob_write_to(container, mh_text("large"), &writer) == NULL, "a writer");
    for (int number = 0; number < 10; number++) {
        memset(piece, number, sizeof piece);
        check(mh_blob_write(&writer, (mh_bytes){piece, sizeof piece}) == NULL, "a piece");
    }
    check(mh_blob_read_from(container, mh_text("large"), &reader) == NULL && !reader.is_there, "it has no end yet");
    check(mh_blob_finish(&writer) == NULL, "its end");
    mh_blob_give_up(&writer);
    check(mh_blob_write(&writer, bytes("x")) != NULL && mh_blob_finish(&writer) != NULL, "what is finished is finished");
    check(mh_blob_read_from(container, mh_text("large"), &reader) == NULL && reader.is_there, "a reader");
    check(reader.size == 1000 * 1000, "its size");
    size_t total = 0, len = 1;
    mh_mark before = mh_memory();
    while (len > 0) {
        check(mh_blob_read(&reader, buffer, sizeof buffer, &len) == NULL, "a piece is read");
        for (size_t at = 0; at < len; at++) check(buffer[at] == (total + at) / sizeof piece, "as it was written");
        total += len;
    }
    mh_mark after = mh_memory();
    check(total == 1000 * 1000 && reader.stream == NULL, "it is at its end, and closed");
    check(before.block == after.block && before.used == after.used, "pieces take no memory");
    check(mh_blob_write_to(container, mh_text("none"), &writer) == NULL, "another one");
    check(mh_blob_write(&writer, bytes("x")) == NULL, "its content");
    mh_blob_give_up(&writer);
    mh_blob_give_up(&writer);
    check(has(container, "none", NULL), "nothing is left of what is given up");
}

static void names_are_listed(void) {
    mh_container container = opened("many");
    mh_text_list names;
    check(mh_blob_names(container, SIZE_MAX, &names) == NULL && names.len == 0, "none");
    for (int number = 0; number < 2500; number++) mh_blob_set(container, mh_format("n/%d", number), bytes(""));
    check(mh_blob_names(container, SIZE_MAX, &names) == NULL && names.len == 2500, "all names");
    check(mh_blob_names(container, 1001, &names) == NULL && names.len == 1001, "so many");
    check(mh_blob_clear(container) == NULL && has(container, "n/7", NULL), "all are removed");
}

static void what_is_open_is_closed_when_the_call_is_over(void) {
    mh_call_over();
    check(mh_store_opened == 0, "nothing is open");
    mh_container container = opened("default"), same = opened("default");
    mh_blob_reader reader;
    mh_blob_writer writer;
    check(container.handle == same.handle && mh_store_opened == 1, "a container is opened once");
    mh_blob_read_from(container, mh_text("large"), &reader);
    mh_blob_write_to(container, mh_text("new"), &writer);
    check(mh_store_opened == 4, "a reader, a value and its stream");
    mh_call_over();
    check(mh_store_opened == 0 && has(opened("default"), "new", NULL), "all are closed");
}

int main(void) {
    objects_are_written_and_read();
    objects_go_piece_by_piece();
    names_are_listed();
    what_is_open_is_closed_when_the_call_is_over();
    mh_blobs_forget();
    mh_call_over();
    return 0;
}
