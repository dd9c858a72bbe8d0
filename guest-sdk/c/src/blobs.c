/* Objects. A handler that opens no container links none of it. */
#include <string.h>

#include "blobs_host.h"

static const mh_error *readable(mh_str name) {
    return mh_is_text(name) ? NULL : mh_because(MH_REASON_INVALID, "a name that is no UTF-8");
}

const mh_error *mh_blob_open(const char *name, mh_container *container) {
    mh_str asked = mh_format("%s", name);
    const mh_error *error = readable(asked);
    if (error != NULL) return error;
    const mh_opened *opened = mh_find_opened(mh_store_drop_container, asked);
    if (opened == NULL) {
        int32_t handle;
        error = mh_store_open(asked, &handle);
        if (error != NULL) return error;
        opened = mh_note_opened(mh_store_drop_container, handle, asked);
    }
    *container = (mh_container){opened->handle};
    return NULL;
}

/* Drops what is open, once. */
static void drop(const mh_opened **opened) {
    mh_opened taken;
    if (*opened != NULL && mh_take_opened(*opened, &taken)) taken.drop(taken.handle);
    *opened = NULL;
}

/* --- Readers -------------------------------------------------------------------------------------------- */

static const mh_error *opened_from(mh_container container, mh_str name, uint64_t first, uint64_t last, mh_blob_reader *reader) {
    *reader = (mh_blob_reader){0};
    const mh_error *error = readable(name);
    if (error != NULL) return error;
    int32_t input;
    error = mh_store_read(container.handle, name, first, last, &input, &reader->size);
    if (error == NULL) {
        reader->is_there = true;
        reader->stream = mh_note_opened(mh_store_drop_input, input, (mh_str){NULL, 0});
        return NULL;
    }
    /* What went wrong, its words alone say. */
    mh_blob_info info;
    const mh_error *other = mh_store_look(container.handle, name, &info);
    return other != NULL ? other : info.is_there ? error : NULL;
}

const mh_error *mh_blob_read_from(mh_container container, mh_str name, mh_blob_reader *reader) {
    return opened_from(container, name, 0, UINT64_MAX, reader);
}

const mh_error *mh_blob_read(mh_blob_reader *reader, void *buffer, size_t room, size_t *len) {
    *len = 0;
    if (reader->stream == NULL || room == 0) return NULL;
    /* An object may have more bytes than there is memory. */
    mh_mark mark = mh_memory();
    mh_bytes piece;
    const mh_error *error = mh_store_next(reader->stream->handle, room < MH_BLOB_PIECE ? room : MH_BLOB_PIECE, &piece);
    if (error != NULL) return error;
    if (piece.len > 0) memcpy(buffer, piece.data, piece.len);
    *len = piece.len;
    mh_give_back(mark);
    if (*len == 0) mh_blob_close(reader);
    return NULL;
}

void mh_blob_close(mh_blob_reader *reader) { drop(&reader->stream); }

const mh_error *mh_blob_get_range(mh_container container, mh_str name, uint64_t start, uint64_t end, mh_bytes *content) {
    *content = (mh_bytes){NULL, 0};
    if (start >= end) {
        mh_blob_info info;
        const mh_error *error = mh_blob_look(container, name, &info);
        if (error == NULL && info.is_there) *content = mh_bytes_of(mh_text(""));
        return error;
    }
    mh_blob_reader reader;
    const mh_error *error = opened_from(container, name, start, end - 1, &reader);
    if (error != NULL || !reader.is_there) return error;
    if (reader.size > SIZE_MAX / 2) {
        mh_blob_close(&reader);
        return mh_internal("the object has more bytes than there is memory");
    }
    uint8_t *bytes = mh_alloc((size_t)reader.size);
    size_t len = 0, read = 0;
    do {
        error = mh_blob_read(&reader, bytes + len, (size_t)reader.size - len, &read);
        len += read;
    } while (error == NULL && read > 0);
    mh_blob_close(&reader);
    if (error == NULL) *content = (mh_bytes){bytes, len};
    return error;
}

const mh_error *mh_blob_get(mh_container container, mh_str name, mh_bytes *content) {
    return mh_blob_get_range(container, name, 0, UINT64_MAX, content);
}

/* --- Writers -------------------------------------------------------------------------------------------- */

const mh_error *mh_blob_write_to(mh_container container, mh_str name, mh_blob_writer *writer) {
    *writer = (mh_blob_writer){0};
    const mh_error *error = readable(name);
    if (error != NULL) return error;
    int32_t value, output;
    error = mh_store_write(container.handle, name, &value, &output);
    if (error != NULL) return error;
    /* The stream is the value's, so it is to be dropped first. */
    writer->value = mh_note_opened(mh_store_drop_value, value, (mh_str){NULL, 0});
    writer->stream = mh_note_opened(mh_store_drop_output, output, (mh_str){NULL, 0});
    return NULL;
}

const mh_error *mh_blob_write(mh_blob_writer *writer, mh_bytes piece) {
    if (writer->stream == NULL) return mh_internal("the object is finished");
    const mh_error *error = NULL;
    while (error == NULL && piece.len > 0) {
        size_t len = piece.len < MH_BLOB_PIECE ? piece.len : MH_BLOB_PIECE;
        error = mh_store_add(writer->stream->handle, (mh_bytes){piece.data, len});
        piece = (mh_bytes){piece.data + len, piece.len - len};
    }
    return error;
}

const mh_error *mh_blob_finish(mh_blob_writer *writer) {
    drop(&writer->stream);
    const mh_opened *value = writer->value;
    writer->value = NULL;
    mh_opened taken;
    if (value == NULL || !mh_take_opened(value, &taken)) return mh_internal("the object is finished");
    return mh_store_finish(taken.handle);
}

void mh_blob_give_up(mh_blob_writer *writer) {
    drop(&writer->stream);
    drop(&writer->value);
}

const mh_error *mh_blob_set(mh_container container, mh_str name, mh_bytes content) {
    mh_blob_writer writer;
    const mh_error *error = mh_blob_write_to(container, name, &writer);
    if (error == NULL) error = mh_blob_write(&writer, content);
    if (error == NULL) error = mh_blob_finish(&writer);
    mh_blob_give_up(&writer);
    return error;
}

/* --- What there is -------------------------------------------------------------------------------------- */

const mh_error *mh_blob_look(mh_container container, mh_str name, mh_blob_info *info) {
    const mh_error *error = readable(name);
    return error != NULL ? error : mh_store_look(container.handle, name, info);
}

const mh_error *mh_blob_delete(mh_container container, mh_str name) {
    const mh_error *error = readable(name);
    return error != NULL ? error : mh_store_delete(container.handle, name);
}

const mh_error *mh_blob_clear(mh_container container) { return mh_store_clear(container.handle); }

const mh_error *mh_blob_names(mh_container container, size_t most, mh_text_list *names) {
    int32_t handle;
    const mh_error *error = mh_store_list(container.handle, &handle);
    if (error != NULL) return error;
    const mh_opened *listing = mh_note_opened(mh_store_drop_listing, handle, (mh_str){NULL, 0});
    mh_growing_list all = {NULL, 0, 0};
    for (bool is_end = false; !is_end && all.len < most;) {
        mh_text_list page;
        error = mh_store_names(handle, most - all.len < MH_BLOB_PAGE ? most - all.len : MH_BLOB_PAGE, &page, &is_end);
        if (error != NULL) break;
        mh_append(&all, page);
    }
    drop(&listing);
    if (error == NULL) *names = (mh_text_list){all.items, all.len};
    return error;
}
