/* Objects that outlive a request, of any size, in C: in the containers that the endpoint grants,
 * `blobs = ["default"]`.
 *
 * Nothing has to be freed: what functions give lasts until the call is over, and so does a container.
 * Readers and writers that are left open are closed then; a request has 16 at most, so close what is not
 * used any more. What functions are given stays the caller's, and is copied. A name is UTF-8 of 1 to 512
 * bytes. Outside a component, in a test, any container is there, its objects are in memory, and
 * mh_blobs_forget() begins anew.
 */
#ifndef MODELHOST_BLOBS_H
#define MODELHOST_BLOBS_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    int32_t handle;
} mh_container;

/* Opens a container until the call is over: `default`, or `shared/pages` for one that several endpoints are
 * granted. */
const mh_error *mh_blob_open(const char *name, mh_container *container);

/* --- As a whole ----------------------------------------------------------------------------------------- */

/* An object; its `data` is NULL if it is not there, and never else. */
const mh_error *mh_blob_get(mh_container container, mh_str name, mh_bytes *content);
/* Its bytes from `start` up to `end`, as far as there are some. */
const mh_error *mh_blob_get_range(mh_container container, mh_str name, uint64_t start, uint64_t end, mh_bytes *content);
/* Writes an object, in place of an earlier one. */
const mh_error *mh_blob_set(mh_container container, mh_str name, mh_bytes content);

typedef struct {
    bool is_there;
    uint64_t size;
    /* When it was written, in seconds since 1970. */
    uint64_t created;
} mh_blob_info;

const mh_error *mh_blob_look(mh_container container, mh_str name, mh_blob_info *info);
/* Removes an object, whether it is there or not. */
const mh_error *mh_blob_delete(mh_container container, mh_str name);
/* Removes all objects. */
const mh_error *mh_blob_clear(mh_container container);
/* The names of so many objects at most, in any order; SIZE_MAX for all. */
const mh_error *mh_blob_names(mh_container container, size_t most, mh_text_list *names);

/* --- Piece by piece ------------------------------------------------------------------------------------- */

typedef struct {
    bool is_there;
    /* The bytes that there are. */
    uint64_t size;
    /* NULL: it is at its end, or closed. */
    const struct mh_opened *stream;
} mh_blob_reader;

const mh_error *mh_blob_read_from(mh_container container, mh_str name, mh_blob_reader *reader);
/* Reads at most so many of the next bytes into a buffer, whose memory is the caller's. None: it is at its
 * end, and closed. */
const mh_error *mh_blob_read(mh_blob_reader *reader, void *buffer, size_t room, size_t *len);
/* Reads no more; may be called again. */
void mh_blob_close(mh_blob_reader *reader);

typedef struct {
    /* NULL: it is finished, or given up. */
    const struct mh_opened *value, *stream;
} mh_blob_writer;

/* An object that is there when mh_blob_finish() has returned; without that, nothing is left of it. */
const mh_error *mh_blob_write_to(mh_container container, mh_str name, mh_blob_writer *writer);
const mh_error *mh_blob_write(mh_blob_writer *writer, mh_bytes piece);
const mh_error *mh_blob_finish(mh_blob_writer *writer);
/* Leaves nothing of the object; may be called again, and after mh_blob_finish(), which stays. */
void mh_blob_give_up(mh_blob_writer *writer);

/* For tests: forgets all objects, and frees their memory. */
void mh_blobs_forget(void);

#ifdef __cplusplus
}
#endif

#endif
