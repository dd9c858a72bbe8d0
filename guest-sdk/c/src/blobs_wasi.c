/* Containers of the host, by `wasi:blobstore`, as the component model has it in a module. */
#ifdef __wasm__
#include "blobs_host.h"

#define IMPORT(module, name) __attribute__((import_module(module), import_name(name)))
#define TYPES(name) IMPORT("wasi:blobstore/types@0.2.0-draft", name)
#define CONTAINER(name) IMPORT("wasi:blobstore/container@0.2.0-draft", name)
#define STREAMS(name) IMPORT("wasi:io/streams@0.2.12", name)

/* The results of those calls whose errors are texts. */
typedef struct {
    uint8_t is_error;
    union {
        int32_t handle;
        uint8_t is_there;
        struct {
            mh_text_list names;
            uint8_t is_end;
        } page;
        mh_str error;
    } as;
} outcome;

typedef struct {
    uint8_t is_error;
    union {
        struct {
            mh_str name, container;
            uint64_t created, size;
        } info;
        mh_str error;
    } as;
} info_outcome;

/* Of a stream, which has failed or is closed. */
typedef struct {
    uint8_t is_closed;
    int32_t error;
} stream_error;

typedef struct {
    uint8_t is_error;
    union {
        mh_bytes piece;
        stream_error error;
    } as;
} piece_outcome;

typedef struct {
    uint8_t is_error;
    union {
        uint64_t room;
        stream_error error;
    } as;
} room_outcome;

_Static_assert(sizeof(outcome) == 16 && offsetof(outcome, as) == 4, "the result of `read-stream-object-names`");
_Static_assert(sizeof(info_outcome) == 40 && offsetof(info_outcome, as.info.created) == 24, "the result of `object-info`");
_Static_assert(sizeof(piece_outcome) == 12 && offsetof(room_outcome, as) == 8, "the results of streams");

#define NAME int32_t container, const char *name, size_t len
#define NAMED container, name.data, name.len

IMPORT("wasi:blobstore/blobstore@0.2.0-draft", "get-container")
void mh_wasi_get_container(const char *name, size_t len, outcome *outcome);
TYPES("[static]outgoing-value.new-outgoing-value") int32_t mh_wasi_new_value(void);
TYPES("[method]outgoing-value.outgoing-value-write-body") void mh_wasi_write_body(int32_t value, outcome *outcome);
TYPES("[static]outgoing-value.finish") void mh_wasi_finish(int32_t value, outcome *outcome);
TYPES("[static]incoming-value.incoming-value-consume-async") void mh_wasi_consume(int32_t value, outcome *outcome);
TYPES("[method]incoming-value.size") uint64_t mh_wasi_size(int32_t value);
TYPES("[resource-drop]outgoing-value") void mh_wasi_drop_value(int32_t value);
CONTAINER("[method]container.get-data") void mh_wasi_get_data(NAME, uint64_t first, uint64_t last, outcome *outcome);
CONTAINER("[method]container.write-data") void mh_wasi_write_data(NAME, int32_t value, outcome *outcome);
CONTAINER("[method]container.list-objects") void mh_wasi_list_objects(int32_t container, outcome *outcome);
CONTAINER("[method]container.delete-object") void mh_wasi_delete_object(NAME, outcome *outcome);
CONTAINER("[method]container.has-object") void mh_wasi_has_object(NAME, outcome *outcome);
CONTAINER("[method]container.object-info") void mh_wasi_object_info(NAME, info_outcome *outcome);
CONTAINER("[method]container.clear") void mh_wasi_clear(int32_t container, outcome *outcome);
CONTAINER("[resource-drop]container") void mh_wasi_drop_container(int32_t container);
CONTAINER("[method]stream-object-names.read-stream-object-names")
void mh_wasi_read_names(int32_t listing, uint64_t most, outcome *outcome);
CONTAINER("[resource-drop]stream-object-names") void mh_wasi_drop_listing(int32_t listing);
STREAMS("[method]input-stream.blocking-read") void mh_wasi_read(int32_t input, uint64_t most, piece_outcome *outcome);
STREAMS("[resource-drop]input-stream") void mh_wasi_drop_input(int32_t input);
STREAMS("[method]output-stream.check-write") void mh_wasi_check_write(int32_t output, room_outcome *outcome);
STREAMS("[method]output-stream.write")
void mh_wasi_write(int32_t output, const uint8_t *piece, size_t len, piece_outcome *outcome);
STREAMS("[method]output-stream.subscribe") int32_t mh_wasi_subscribe(int32_t output);
STREAMS("[resource-drop]output-stream") void mh_wasi_drop_output(int32_t output);
IMPORT("wasi:io/poll@0.2.12", "[method]pollable.block") void mh_wasi_block(int32_t pollable);
IMPORT("wasi:io/poll@0.2.12", "[resource-drop]pollable") void mh_wasi_drop_pollable(int32_t pollable);
IMPORT("wasi:io/error@0.2.12", "[method]error.to-debug-string") void mh_wasi_error_text(int32_t error, mh_str *text);
IMPORT("wasi:io/error@0.2.12", "[resource-drop]error") void mh_wasi_drop_error(int32_t error);

static const mh_error *told(mh_str text) { return mh_internal("%.*s", (int)text.len, text.data); }

static const mh_error *done(const outcome *outcome) { return outcome->is_error ? told(outcome->as.error) : NULL; }

static const mh_error *stream_told(stream_error error) {
    if (error.is_closed) return mh_internal("the object is closed");
    mh_str text;
    mh_wasi_error_text(error.error, &text);
    mh_wasi_drop_error(error.error);
    return told(text);
}

const mh_error *mh_store_open(mh_str name, int32_t *container) {
    outcome outcome;
    mh_wasi_get_container(name.data, name.len, &outcome);
    *container = outcome.as.handle;
    return done(&outcome);
}

const mh_error *mh_store_read(int32_t container, mh_str name, uint64_t first, uint64_t last, int32_t *input, uint64_t *size) {
    outcome outcome;
    mh_wasi_get_data(NAMED, first, last, &outcome);
    if (outcome.is_error) return told(outcome.as.error);
    *size = mh_wasi_size(outcome.as.handle);
    mh_wasi_consume(outcome.as.handle, &outcome);
    *input = outcome.as.handle;
    return done(&outcome);
}

const mh_error *mh_store_next(int32_t input, size_t most, mh_bytes *piece) {
    piece_outcome outcome;
    mh_wasi_read(input, most, &outcome);
    if (outcome.is_error && !outcome.as.error.is_closed) return stream_told(outcome.as.error);
    *piece = outcome.is_error ? (mh_bytes){NULL, 0} : outcome.as.piece;
    return NULL;
}

const mh_error *mh_store_write(int32_t container, mh_str name, int32_t *value, int32_t *output) {
    outcome outcome;
    *value = mh_wasi_new_value();
    mh_wasi_write_data(NAMED, *value, &outcome);
    const mh_error *error = done(&outcome);
    if (error == NULL) {
        mh_wasi_write_body(*value, &outcome);
        if (outcome.is_error) error = mh_internal("the object takes no content");
    }
    if (error != NULL) mh_wasi_drop_value(*value);
    *output = outcome.as.handle;
    return error;
}

const mh_error *mh_store_add(int32_t output, mh_bytes piece) {
    while (piece.len > 0) {
        room_outcome room;
        mh_wasi_check_write(output, &room);
        if (room.is_error) return stream_told(room.as.error);
        if (room.as.room == 0) {
            int32_t pollable = mh_wasi_subscribe(output);
            mh_wasi_block(pollable);
            mh_wasi_drop_pollable(pollable);
            continue;
        }
        size_t len = room.as.room < piece.len ? (size_t)room.as.room : piece.len;
        piece_outcome written;
        mh_wasi_write(output, piece.data, len, &written);
        if (written.is_error) return stream_told(written.as.error);
        piece = (mh_bytes){piece.data + len, piece.len - len};
    }
    return NULL;
}

const mh_error *mh_store_finish(int32_t value) {
    outcome outcome;
    mh_wasi_finish(value, &outcome);
    return done(&outcome);
}

const mh_error *mh_store_look(int32_t container, mh_str name, mh_blob_info *info) {
    *info = (mh_blob_info){0};
    outcome outcome;
    mh_wasi_has_object(NAMED, &outcome);
    if (outcome.is_error || !outcome.as.is_there) return done(&outcome);
    info_outcome found;
    mh_wasi_object_info(NAMED, &found);
    if (found.is_error) return told(found.as.error);
    *info = (mh_blob_info){true, found.as.info.size, found.as.info.created};
    return NULL;
}

const mh_error *mh_store_delete(int32_t container, mh_str name) {
    outcome outcome;
    mh_wasi_delete_object(NAMED, &outcome);
    return done(&outcome);
}

const mh_error *mh_store_clear(int32_t container) {
    outcome outcome;
    mh_wasi_clear(container, &outcome);
    return done(&outcome);
}

const mh_error *mh_store_list(int32_t container, int32_t *listing) {
    outcome outcome;
    mh_wasi_list_objects(container, &outcome);
    *listing = outcome.as.handle;
    return done(&outcome);
}

const mh_error *mh_store_names(int32_t listing, size_t most, mh_text_list *names, bool *is_end) {
    outcome outcome;
    mh_wasi_read_names(listing, most, &outcome);
    if (outcome.is_error) return told(outcome.as.error);
    *names = outcome.as.page.names;
    *is_end = outcome.as.page.is_end != 0;
    return NULL;
}

void mh_store_drop_container(int32_t container) { mh_wasi_drop_container(container); }

void mh_store_drop_input(int32_t input) { mh_wasi_drop_input(input); }

void mh_store_drop_value(int32_t value) { mh_wasi_drop_value(value); }

void mh_store_drop_output(int32_t output) { mh_wasi_drop_output(output); }

void mh_store_drop_listing(int32_t listing) { mh_wasi_drop_listing(listing); }
#endif
