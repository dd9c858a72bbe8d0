/* The library `image`, as the component model has it in a module. */
#include "internal.h"
#include "modelhost_libraries.h"

static mh_prepare_function *answer;

void mh_image_answer_with(mh_prepare_function *function) { answer = function; }

#ifdef __wasm__
#define IMPORT(name) __attribute__((import_module("modelhost:image/images@0.1.0"), import_name(name)))

/* The interface's errors: the last kind is the handler's. */
enum { UNUSABLE = 3 };

typedef struct {
    uint8_t kind;
    mh_str text;
} raw_error;

typedef struct {
    mh_bytes file;
    uint8_t is_sized;
    uint32_t width, height;
    uint8_t fit, filter, colours, layout, datatype;
    float scale;
    mh_float_list mean, deviation;
    uint8_t padding, upright;
    uint32_t most_pixels;
} raw_arguments;

typedef struct {
    mh_shape shape;
    mh_bytes data;
    uint32_t width, height;
    float left, top, scale_x, scale_y;
} raw_pixels;

typedef struct {
    uint8_t is_error;
    union {
        raw_pixels pixels;
        raw_error error;
    } as;
} raw_prepared;

typedef struct {
    uint8_t is_error;
    union {
        mh_picture_info info;
        raw_error error;
    } as;
} raw_inspected;

_Static_assert(sizeof(raw_arguments) == 56 && offsetof(raw_arguments, scale) == 28, "the arguments of `prepare`");
_Static_assert(sizeof(raw_prepared) == 44 && offsetof(raw_prepared, as) == 4, "the result of `prepare`");
_Static_assert(sizeof(raw_inspected) == 20, "the result of `inspect`");

IMPORT("prepare") void mh_host_prepare(const raw_arguments *arguments, raw_prepared *result);
IMPORT("inspect") void mh_host_inspect(const uint8_t *file, size_t len, raw_inspected *result);

static const mh_error *error_of(raw_error error) {
    if (error.kind == UNUSABLE) return mh_internal("%.*s", (int)error.text.len, error.text.data);
    return mh_invalid("%.*s", (int)error.text.len, error.text.data);
}

static const mh_error *prepare(mh_bytes file, const mh_preparation *said, mh_picture *picture) {
    static const uint8_t filters[] = {2, 0, 1, 3, 4};
    raw_arguments arguments = {
        .file = file,
        .is_sized = said->width != 0,
        .width = said->width,
        .height = said->height,
        .fit = said->fit,
        .filter = filters[said->filter],
        .colours = said->colours,
        .layout = said->layout,
        .datatype = said->datatype == MH_UINT8 ? 0 : said->datatype == MH_FP16 ? 1 : 2,
        .scale = said->scale,
        .mean = said->mean,
        .deviation = said->deviation,
        .padding = said->padding,
        .upright = !said->as_stored,
        .most_pixels = said->most_pixels,
    };
    raw_prepared result;
    mh_host_prepare(&arguments, &result);
    if (result.is_error) return error_of(result.as.error);
    raw_pixels pixels = result.as.pixels;
    uint64_t *shape = mh_alloc((pixels.shape.len + 1) * sizeof *shape);
    shape[0] = 1;
    for (size_t axis = 0; axis < pixels.shape.len; axis++) shape[axis + 1] = pixels.shape.data[axis];
    *picture = (mh_picture){
        .tensor = {.name = {"", 0}, .datatype = said->datatype, .shape = {shape, pixels.shape.len + 1}, .data = pixels.data},
        .width = pixels.width,
        .height = pixels.height,
        .left = pixels.left,
        .top = pixels.top,
        .scale_x = pixels.scale_x,
        .scale_y = pixels.scale_y,
    };
    return NULL;
}

const mh_error *mh_inspect(mh_bytes file, mh_picture_info *info) {
    raw_inspected result;
    mh_host_inspect(file.data, file.len, &result);
    if (result.is_error) return error_of(result.as.error);
    *info = result.as.info;
    return NULL;
}
#else
static const mh_error *prepare(mh_bytes file, const mh_preparation *said, mh_picture *picture) {
    if (answer == NULL) return mh_internal("the test does not say what comes of a file: mh_image_answer_with");
    return answer(file, said, picture);
}

const mh_error *mh_inspect(mh_bytes file, mh_picture_info *info) {
    (void)file, (void)info;
    return mh_internal("a test looks at no files");
}
#endif

const mh_error *mh_prepare(mh_bytes file, const mh_preparation *preparation, mh_picture *picture) {
    mh_preparation said = *preparation;
    if (said.datatype == MH_BOOL) said.datatype = MH_FP32;
    if (said.scale == 0) said.scale = 1.0f / 255;
    if (said.fit > MH_CONTAIN || said.filter > MH_LANCZOS || said.colours > MH_GREY || said.layout > MH_PIXELS ||
        (said.width == 0) != (said.height == 0)) {
        return mh_internal("a preparation with values that are none of the library's");
    }
    if (said.datatype != MH_FP32 && said.datatype != MH_FP16 && said.datatype != MH_UINT8) {
        return mh_internal("pixels of a datatype that is not MH_UINT8, MH_FP16 or MH_FP32");
    }
    return prepare(file, &said, picture);
}
