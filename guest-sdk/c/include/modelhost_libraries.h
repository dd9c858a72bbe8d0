/* What the libraries `image`, `tokenizer` and `tensor` do, in C: components of their own, which `modelhost build` puts into
 * the handler's, `[build]` with `with = ["image"]` in modelhost.toml.
 *
 * Errors are those of handlers and can be returned as they are: what is the caller's, a file that is no picture or a text that
 * is too long, is a 400. What functions make lasts until the call is over. Outside a component there are no libraries: in a
 * test the functions that end in `answer_with` say what comes of a call.
 */
#ifndef MODELHOST_LIBRARIES_H
#define MODELHOST_LIBRARIES_H

#include "modelhost.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Pictures -------------------------------------------------------------------------------------------------- */

enum { MH_STRETCH, MH_COVER, MH_CONTAIN };
enum { MH_BILINEAR, MH_NEAREST, MH_BOX, MH_BICUBIC, MH_LANCZOS };
enum { MH_RGB, MH_BGR, MH_GREY };
/* [1, values, rows, columns], or [1, rows, columns, values]. */
enum { MH_PLANES, MH_PIXELS };

typedef struct {
    const float *data;
    size_t len;
} mh_float_list;

/* How a picture becomes a tensor. All zeros: of its own size, red, green and blue in planes, upright, MH_FP32 from 0 to 1. */
typedef struct {
    /* Columns and rows; 0 for the picture's own. */
    uint32_t width, height;
    uint8_t fit, filter, colours, layout;
    /* MH_FP32, which 0 stands for, MH_FP16, or MH_UINT8: the bytes as they are. */
    mh_datatype datatype;
    /* The byte around a picture that does not fill its size. */
    uint8_t padding;
    /* Leaves the picture as it lies in the file; else it is turned as the file says. */
    bool as_stored;
    /* A value is (byte * scale - mean) / deviation; a scale of 0 is 1/255. Mean and deviation have a number for each value of
     * a pixel; without, they are 0 and 1. */
    float scale;
    mh_float_list mean, deviation;
    /* Most pixels of a file's picture; 0 for 4096 by 4096. */
    uint32_t most_pixels;
} mh_preparation;

typedef struct {
    mh_tensor tensor;
    /* Columns and rows of the file's picture, turned if it was to be. */
    uint32_t width, height;
    /* Where it lies in the tensor: a point of it is at (x * scale_x + left, y * scale_y + top). */
    float left, top, scale_x, scale_y;
} mh_picture;

/* Decodes a JPEG, PNG or WebP file and prepares its picture. */
const mh_error *mh_prepare(mh_bytes file, const mh_preparation *preparation, mh_picture *picture);

enum { MH_JPEG, MH_PNG, MH_WEBP };
typedef struct {
    uint8_t format;
    /* As they lie in the file. */
    uint32_t width, height;
    /* The way to turn it, as EXIF numbers it: 1 to 8. */
    uint8_t orientation;
} mh_picture_info;

/* Reads a file's head, without decoding it. */
const mh_error *mh_inspect(mh_bytes file, mh_picture_info *info);

typedef const mh_error *mh_prepare_function(mh_bytes file, const mh_preparation *preparation, mh_picture *picture);
void mh_image_answer_with(mh_prepare_function *answer);

/* --- Texts ----------------------------------------------------------------------------------------------------- */

/* A tokenizer.json that was read; it stays. */
typedef struct {
    int32_t handle;
} mh_tokenizer;

/* A number of tokens, or one of these. */
enum { MH_PAD_LONGEST = 0, MH_PAD_OFF = -1, MH_PAD_AS_FILE = -2 };
enum { MH_TRUNCATE_AS_FILE = 0, MH_TRUNCATE_OFF = -1 };
/* What the places of tokens in a text are counted in. */
enum { MH_OFFSETS_NONE, MH_OFFSETS_BYTES, MH_OFFSETS_CHARACTERS };

/* How texts become rows of tokens. All zeros: with special tokens, as long as the longest row, cut off as the file says. */
typedef struct {
    bool without_special_tokens;
    int64_t padding, truncation;
    uint8_t offsets;
} mh_encode_options;

/* Rows of tokens, a row for each text: MH_INT64 tensors [texts, length], named `input_ids`, `attention_mask` and
 * `token_type_ids`. Offsets are [texts, length, 2], and have no elements if not asked for. */
typedef struct {
    mh_tensor ids, mask, types, offsets;
} mh_encoding;

/* Reads the bytes of a tokenizer.json. */
const mh_error *mh_tokenizer_load(mh_bytes json, mh_tokenizer *tokenizer);
/* A row for each text; with `seconds`, one for each text, of both. */
const mh_error *mh_encode(mh_tokenizer tokenizer, mh_text_list texts, mh_text_list seconds, mh_encode_options options,
                          mh_encoding *encoding);
/* The text of tokens, with the special ones or without. */
const mh_error *mh_decode(mh_tokenizer tokenizer, const int64_t *ids, size_t count, bool skip_special_tokens, mh_str *text);
/* The number of a token, or -1. */
int64_t mh_token_id(mh_tokenizer tokenizer, mh_str token);
/* The token of a number, if there is one. */
bool mh_token_of(mh_tokenizer tokenizer, int64_t id, mh_str *token);
uint32_t mh_tokenizer_size(mh_tokenizer tokenizer);
/* Gives its memory back. */
void mh_tokenizer_drop(mh_tokenizer tokenizer);

typedef const mh_error *mh_encode_function(mh_text_list texts, mh_text_list seconds, mh_encode_options options, mh_encoding *encoding);
void mh_tokenizer_answer_with(mh_encode_function *answer);

/* --- Tensors ---------------------------------------------------------------------------------------------------- */

/* An axis is counted from 0, or back from -1, which is the last. What is computed of floats is MH_FP32. */

/* The places of the largest values along an axis, the first of several: MH_INT64, without this axis. */
const mh_error *mh_argmax_along(mh_tensor tensor, int32_t axis, mh_tensor *made);
/* The largest values along an axis, the largest first, and their places as MH_INT64. */
const mh_error *mh_top_k(mh_tensor tensor, uint32_t count, int32_t axis, mh_tensor *values, mh_tensor *places);
/* Values as shares of 1 along an axis. */
const mh_error *mh_softmax(mh_tensor tensor, int32_t axis, mh_tensor *made);
/* Values divided by their length (L2) along an axis; zeros stay zeros. */
const mh_error *mh_normalise(mh_tensor tensor, int32_t axis, mh_tensor *made);
/* [texts, length, values] to [texts, values]: the mean of those for which the mask, [texts, length], is not 0. */
const mh_error *mh_mean_pool(mh_tensor tensor, mh_tensor mask, mh_tensor *made);
/* Tensors of one datatype, one after the other along an axis. */
const mh_error *mh_concat(mh_tensors tensors, int32_t axis, mh_tensor *made);
/* The entries of an axis at places, MH_INT64 or MH_INT32, counted back from -1 where they are negative. */
const mh_error *mh_gather(mh_tensor tensor, mh_tensor places, int32_t axis, mh_tensor *made);

typedef struct {
    /* Classes of the boxes, MH_INT64 [boxes]: a box goes only for one of its own. NULL: for any. */
    const mh_tensor *classes;
    /* A box goes that a better one overlaps by more than this, and one of a lower score. */
    float most_overlap, least_score;
    /* Not more stay; 0 for any number. */
    uint32_t most;
} mh_suppression;

/* The places, MH_INT64, of the boxes that stay, the best first. Boxes are [boxes, 4] (left, top, right, bottom), scores
 * [boxes]. */
const mh_error *mh_suppress(mh_tensor boxes, mh_tensor scores, mh_suppression suppression, mh_tensor *made);

/* `operation` is the function's name, such as "mh_softmax"; `made` is one tensor, two for mh_top_k. */
typedef const mh_error *mh_compute_function(const char *operation, const mh_tensor *given, size_t count, mh_tensor *made);
void mh_tensor_answer_with(mh_compute_function *answer);

#ifdef __cplusplus
}
#endif

#endif
