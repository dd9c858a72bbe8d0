/* Texts to tokens, as the body says, and back. */
#include <modelhost_libraries.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {"wordpiece", "bytelevel", "unigram", "fallback"};
static mh_tokenizer loaded[4];

static const mh_error *load(mh_str metadata) {
    (void)metadata;
    for (size_t at = 0; at < 4; at++) {
        FILE *file = fopen(mh_format("/mnt/project/%s.json", names[at]).data, "r");
        if (file == NULL) return mh_internal("no file for %s", names[at]);
        enum { MOST = 1 << 20 };
        uint8_t *bytes = mh_alloc(MOST);
        size_t len = fread(bytes, 1, MOST, file);
        fclose(file);
        const mh_error *error = mh_tokenizer_load((mh_bytes){bytes, len}, &loaded[at]);
        if (error != NULL) return error;
    }
    return NULL;
}
MH_INIT(load)

static mh_text_list texts_of(const mh_json *list) {
    if (list == NULL) return (mh_text_list){0};
    mh_str *texts = mh_alloc(list->len * sizeof *texts);
    size_t count = 0;
    for (const mh_json *each = list->first; each != NULL; each = each->next) texts[count++] = each->text;
    return (mh_text_list){texts, count};
}

/* A number of tokens, or a name. */
static int64_t length_of(const mh_json *said, int64_t unsaid, int64_t as_file) {
    if (said == NULL) return unsaid;
    if (said->kind == MH_JSON_NUMBER) return (int64_t)said->number;
    return mh_equal(said->text, mh_text("off")) ? -1 : mh_equal(said->text, mh_text("file")) ? as_file : 0;
}

/* As lists, nested as the shape is. */
static const int64_t *write(mh_json_writer *to, const mh_tensor *tensor, size_t axis, const int64_t *values) {
    if (axis == tensor->shape.len) {
        mh_write_number(to, (double)*values);
        return values + 1;
    }
    mh_write_begin(to, '[');
    for (uint64_t at = 0; at < tensor->shape.data[axis]; at++) values = write(to, tensor, axis + 1, values);
    mh_write_end(to, ']');
    return values;
}

static const mh_error *answered(mh_tokenizer words, const mh_json *asked) {
    const mh_json *special = mh_json_get(asked, "special_tokens"), *offsets = mh_json_get(asked, "offsets");
    mh_encode_options options = {
        .without_special_tokens = special != NULL && !special->boolean,
        .padding = length_of(mh_json_get(asked, "padding"), MH_PAD_LONGEST, MH_PAD_AS_FILE),
        .truncation = length_of(mh_json_get(asked, "truncation"), MH_TRUNCATE_AS_FILE, MH_TRUNCATE_AS_FILE),
        .offsets = offsets != NULL && offsets->boolean ? MH_OFFSETS_CHARACTERS : MH_OFFSETS_NONE,
    };
    mh_text_list texts = texts_of(mh_json_get(asked, "texts"));
    mh_encoding made;
    const mh_error *error = mh_encode(words, texts, texts_of(mh_json_get(asked, "seconds")), options, &made);
    if (error != NULL) return error;
    struct {
        const char *name;
        const mh_tensor *tensor;
    } parts[] = {{"ids", &made.ids}, {"mask", &made.mask}, {"types", &made.types}, {"offsets", &made.offsets}};
    mh_json_writer said = {0};
    mh_write_begin(&said, '{');
    for (size_t at = 0; at < (options.offsets ? 4 : 3); at++) {
        mh_write_name(&said, parts[at].name);
        write(&said, parts[at].tensor, 0, mh_values(parts[at].tensor, MH_INT64));
    }
    mh_str text = {"", 0}, token;
    if (texts.len > 0) error = mh_decode(words, mh_values(&made.ids, MH_INT64), (size_t)made.ids.shape.data[1], true, &text);
    if (error != NULL) return error;
    mh_write_name(&said, "text");
    mh_write_text(&said, text);
    mh_write_end(&said, '}');
    if (!mh_token_of(words, 5, &token) || mh_token_id(words, token) != 5 || mh_tokenizer_size(words) <= 100 ||
        mh_token_of(words, 1 << 30, &token)) {
        return mh_internal("no token 5");
    }
    return mh_respond(mh_json_response(&said));
}

static const mh_error *encode(const mh_sample *sample, const mh_context *context, mh_tensors *inputs) {
    (void)context, (void)inputs;
    const mh_json *said;
    const mh_error *error = mh_json_read(sample->body, &said);
    if (error != NULL) return error;
    const mh_json *file = mh_json_get(said, "file"), *name = mh_json_get(said, "tokenizer"), *asked = mh_json_get(said, "asked");
    if (asked == NULL) return mh_invalid("missing field `asked`");
    mh_tokenizer words = loaded[0];
    if (file == NULL) {
        for (size_t at = 0; name != NULL && at < 4; at++) {
            if (mh_equal(name->text, mh_text(names[at]))) words = loaded[at];
        }
        return answered(words, asked);
    }
    error = mh_tokenizer_load((mh_bytes){(const uint8_t *)file->text.data, file->text.len}, &words);
    if (error != NULL) return error;
    error = answered(words, asked);
    mh_tokenizer_drop(words);
    return error;
}
MH_PRE_INFERENCE(encode)

static const mh_error *answer(mh_tensors outputs, const mh_context *context, mh_response *response) {
    (void)outputs, (void)context, (void)response;
    return NULL;
}
MH_POST_INFERENCE(answer)
