/* What the store of objects does, below modelhost_blobs.h: in a component blobs_wasi.c, in a test
 * blobs_in_tests.c. Names are UTF-8 here. What has an end, `drop`, is open from then on. */
#ifndef MODELHOST_BLOBS_HOST_H
#define MODELHOST_BLOBS_HOST_H

#include "internal.h"
#include "modelhost_blobs.h"

/* Most bytes that are asked for or given at once, and most names. */
enum { MH_BLOB_PIECE = 256 * 1024, MH_BLOB_PAGE = 1000 };

const mh_error *mh_store_open(mh_str name, int32_t *container);
/* The bytes from `first` to `last`, both of them included; an error if the object is not there. */
const mh_error *mh_store_read(int32_t container, mh_str name, uint64_t first, uint64_t last, int32_t *input, uint64_t *size);
/* None: it is at its end. */
const mh_error *mh_store_next(int32_t input, size_t most, mh_bytes *piece);
const mh_error *mh_store_write(int32_t container, mh_str name, int32_t *value, int32_t *output);
const mh_error *mh_store_add(int32_t output, mh_bytes piece);
/* Takes the value, whose output has to be dropped. */
const mh_error *mh_store_finish(int32_t value);
const mh_error *mh_store_look(int32_t container, mh_str name, mh_blob_info *info);
const mh_error *mh_store_delete(int32_t container, mh_str name);
const mh_error *mh_store_clear(int32_t container);
const mh_error *mh_store_list(int32_t container, int32_t *listing);
const mh_error *mh_store_names(int32_t listing, size_t most, mh_text_list *names, bool *is_end);

void mh_store_drop_container(int32_t container);
void mh_store_drop_input(int32_t input);
void mh_store_drop_value(int32_t value);
void mh_store_drop_output(int32_t output);
void mh_store_drop_listing(int32_t listing);

#ifndef __wasm__
/* For tests of the SDK: what is open. */
extern size_t mh_store_opened;
#endif

#endif
