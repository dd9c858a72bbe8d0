/* Memory of what stands in for the host's stores in a test: it lasts until all of a store is forgotten. */
#ifndef MODELHOST_IN_TESTS_H
#define MODELHOST_IN_TESTS_H

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "internal.h"

typedef struct mh_piece {
    struct mh_piece *next;
} mh_piece;

static inline void *mh_stored(mh_piece **pieces, size_t size) {
    mh_piece *piece = malloc(sizeof *piece + size);
    if (piece == NULL) abort();
    piece->next = *pieces;
    *pieces = piece;
    return memset(piece + 1, 0, size);
}

static inline mh_bytes mh_stored_bytes(mh_piece **pieces, mh_bytes bytes) {
    uint8_t *copy = mh_stored(pieces, bytes.len + 1);
    if (bytes.len > 0) memcpy(copy, bytes.data, bytes.len);
    return (mh_bytes){copy, bytes.len};
}

static inline mh_str mh_stored_text(mh_piece **pieces, mh_str text) {
    return mh_text_of(mh_stored_bytes(pieces, mh_bytes_of(text)));
}

static inline void mh_free_stored(mh_piece **pieces) {
    while (*pieces != NULL) {
        mh_piece *next = (*pieces)->next;
        free(*pieces);
        *pieces = next;
    }
}

/* Milliseconds since 1970. */
static inline uint64_t mh_now(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#endif
