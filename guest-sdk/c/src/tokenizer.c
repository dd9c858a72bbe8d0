/* The library `tokenizer`, as the component model has it in a module. */
#include <string.h>

#include "internal.h"
#include "modelhost_libraries.h"

static mh_encode_function *answer;

void mh_tokenizer_answer_with(mh_encode_function *function) { answer = function; }

#ifdef __wasm__
#define IMPORT(name) __attribute__((import_module("modelhost:tokenizer/tokenizers@0.1.0"), import_name(name)))

/* The interface's variants. */
enum { PAD_OFF, PAD_LONGEST, PAD_TO, PAD_AS_FILE };
enum { TRUNCATE_OFF, TRUNCATE_TO, TRUNCATE_AS_FILE };
/* Of its errors, the one that is the caller's. */
enum { OF_TEXT = 2 };

typedef struct {
    uint8_t kind;
    mh_str text;
} raw_error;

typedef struct {
    uint32_t texts, length;
    mh_bytes ids, mask, types, offsets;
} raw_encoding;

typedef struct {
    uint8_t is_error;
    union {
        int32_t handle;
        raw_encoding encoding;
        mh_str text;
        raw_error error;
    } as;
} raw_result;

typedef struct {
    uint8_t has;
    union {
        uint32_t id;
        mh_str token;
    } as;
} raw_found;

_Static_assert(sizeof(raw_result) == 44 && offsetof(raw_result, as) == 4, "the result of `encode`");

IMPORT("[static]tokenizer.load") void mh_host_load(const uint8_t *json, size_t len, raw_result *result);
IMPORT("[method]tokenizer.encode")
void mh_host_encode(int32_t handle, const mh_str *texts, size_t count, const mh_str *seconds, size_t of_seconds,
                    int32_t special_tokens, int32_t padding, uint32_t padded_to, int32_t truncation, uint32_t truncated_to,
                    int32_t has_offsets, int32_t unit, raw_result *result);
IMPORT("[method]tokenizer.decode")
void mh_host_decode(int32_t handle, const uint32_t *ids, size_t count, int32_t skip_special_tokens, raw_result *result);
IMPORT("[method]tokenizer.id-of")
void mh_host_id_of(int32_t handle, const char *token, size_t len, raw_found *found);
IMPORT("[method]tokenizer.token-of") void mh_host_token_of(int32_t handle, int32_t id, raw_found *found);
IMPORT("[method]tokenizer.size") int32_t mh_host_size(int32_t handle);
IMPORT("[resource-drop]tokenizer") void mh_host_drop_tokenizer(int32_t handle);

static const mh_error *error_of(raw_error error) {
    if (error.kind == OF_TEXT) return mh_invalid("%.*s", (int)error.text.len, error.text.data);
    return mh_internal("%.*s", (int)error.text.len, error.text.data);
}

const mh_error *mh_tokenizer_load(mh_bytes json, mh_tokenizer *tokenizer) {
    raw_result result;
    mh_host_load(json.data, json.len, &result);
    if (result.is_error) return error_of(result.as.error);
    tokenizer->handle = result.as.handle;
    return NULL;
}

static mh_tensor tensor(const char *name, mh_bytes data, uint64_t texts, uint64_t length, size_t rank) {
    uint64_t *shape = mh_alloc(3 * sizeof *shape);
    shape[0] = texts;
    shape[1] = length;
    shape[2] = 2;
    return (mh_tensor){.name = mh_text(name), .datatype = MH_INT64, .shape = {shape, rank}, .data = data};
}

const mh_error *mh_encode(mh_tokenizer tokenizer, mh_text_list texts, mh_text_list seconds, mh_encode_options options,
                          mh_encoding *encoding) {
    int64_t padding = options.padding, truncation = options.truncation;
    if (padding < MH_PAD_AS_FILE || padding > UINT32_MAX || truncation < MH_TRUNCATE_OFF || truncation > UINT32_MAX ||
        options.offsets > MH_OFFSETS_CHARACTERS) {
        return mh_internal("a padding of %lld, a truncation of %lld", (long long)padding, (long long)truncation);
    }
    int32_t padding_kind = padding > 0                   ? PAD_TO
                           : padding == MH_PAD_OFF       ? PAD_OFF
                           : padding == MH_PAD_AS_FILE   ? PAD_AS_FILE
                                                         : PAD_LONGEST;
    int32_t truncation_kind = truncation > 0                  ? TRUNCATE_TO
                              : truncation == MH_TRUNCATE_OFF ? TRUNCATE_OFF
                                                              : TRUNCATE_AS_FILE;
    bool has_offsets = options.offsets != MH_OFFSETS_NONE;
    raw_result result;
    mh_host_encode(tokenizer.handle, texts.items, texts.len, seconds.items, seconds.len, !options.without_special_tokens,
                   padding_kind, padding > 0 ? (uint32_t)padding : 0, truncation_kind, truncation > 0 ? (uint32_t)truncation : 0, has_offsets,
                   has_offsets ? options.offsets - MH_OFFSETS_BYTES : 0, &result);
    if (result.is_error) return error_of(result.as.error);
    raw_encoding made = result.as.encoding;
    *encoding = (mh_encoding){
        .ids = tensor("input_ids", made.ids, made.texts, made.length, 2),
        .mask = tensor("attention_mask", made.mask, made.texts, made.length, 2),
        .types = tensor("token_type_ids", made.types, made.texts, made.length, 2),
        .offsets = has_offsets ? tensor("offsets", made.offsets, made.texts, made.length, 3)
                               : tensor("offsets", made.offsets, 0, 0, 1),
    };
    return NULL;
}

const mh_error *mh_decode(mh_tokenizer tokenizer, const int64_t *ids, size_t count, bool skip_special_tokens, mh_str *text) {
    uint32_t *narrow = mh_alloc(count * sizeof *narrow);
    for (size_t at = 0; at < count; at++) {
        if (ids[at] < 0 || ids[at] > UINT32_MAX) return mh_internal("token %lld", (long long)ids[at]);
        narrow[at] = (uint32_t)ids[at];
    }
    raw_result result;
    mh_host_decode(tokenizer.handle, narrow, count, skip_special_tokens, &result);
    if (result.is_error) return error_of(result.as.error);
    *text = result.as.text;
    return NULL;
}

int64_t mh_token_id(mh_tokenizer tokenizer, mh_str token) {
    raw_found found;
    mh_host_id_of(tokenizer.handle, token.data, token.len, &found);
    return found.has ? (int64_t)found.as.id : -1;
}

bool mh_token_of(mh_tokenizer tokenizer, int64_t id, mh_str *token) {
    if (id < 0 || id > UINT32_MAX) return false;
    raw_found found;
    mh_host_token_of(tokenizer.handle, (int32_t)(uint32_t)id, &found);
    if (found.has) *token = found.as.token;
    return found.has;
}

uint32_t mh_tokenizer_size(mh_tokenizer tokenizer) { return (uint32_t)mh_host_size(tokenizer.handle); }

void mh_tokenizer_drop(mh_tokenizer tokenizer) { mh_host_drop_tokenizer(tokenizer.handle); }
#else
const mh_error *mh_tokenizer_load(mh_bytes json, mh_tokenizer *tokenizer) {
    (void)json;
    tokenizer->handle = 0;
    return NULL;
}

const mh_error *mh_encode(mh_tokenizer tokenizer, mh_text_list texts, mh_text_list seconds, mh_encode_options options,
                          mh_encoding *encoding) {
    (void)tokenizer;
    if (answer == NULL) return mh_internal("the test does not say what tokens are: mh_tokenizer_answer_with");
    return answer(texts, seconds, options, encoding);
}

const mh_error *mh_decode(mh_tokenizer tokenizer, const int64_t *ids, size_t count, bool skip_special_tokens, mh_str *text) {
    (void)tokenizer, (void)ids, (void)count, (void)skip_special_tokens, (void)text;
    return mh_internal("a test decodes no tokens");
}

int64_t mh_token_id(mh_tokenizer tokenizer, mh_str token) {
    (void)tokenizer, (void)token;
    return -1;
}

bool mh_token_of(mh_tokenizer tokenizer, int64_t id, mh_str *token) {
    (void)tokenizer, (void)id, (void)token;
    return false;
}

uint32_t mh_tokenizer_size(mh_tokenizer tokenizer) {
    (void)tokenizer;
    return 0;
}

void mh_tokenizer_drop(mh_tokenizer tokenizer) { (void)tokenizer; }
#endif
