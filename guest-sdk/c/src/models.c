/* The contract's `models`, as the component model has it in a module. */
#include <string.h>

#include "internal.h"

static mh_infer_function *answer;

void mh_models_answer_with(mh_infer_function *function) { answer = function; }

#ifdef __wasm__
/* In the order of the contract. */
enum { NO_SUCH_MODEL, INVALID_INPUT, OVERLOADED, TIMED_OUT, FAILED, LIMIT };

typedef struct {
    uint8_t is_error;
    union {
        mh_tensors outputs;
        struct {
            uint8_t kind;
            mh_str text;
        } error;
    } as;
} raw_result;

_Static_assert(sizeof(raw_result) == 16 && offsetof(raw_result, as) == 4, "what `infer` returns");

__attribute__((import_module("modelhost:handler/models@0.1.0"), import_name("infer"))) void mh_host_infer(
    const char *model, size_t len, const mh_tensor *inputs, size_t count, raw_result *result);

static const mh_error *infer(const char *model, mh_tensors inputs, mh_tensors *outputs) {
    raw_result result;
    mh_host_infer(model, strlen(model), inputs.items, inputs.len, &result);
    if (!result.is_error) {
        *outputs = result.as.outputs;
        return NULL;
    }
    mh_str text = result.as.error.text;
    switch (result.as.error.kind) {
        case NO_SUCH_MODEL: return mh_internal("the endpoint has no model `%.*s`", (int)text.len, text.data);
        case OVERLOADED: {
            mh_response response = mh_text_response(mh_text("overloaded"));
            response.status = 503;
            return mh_respond(response);
        }
        case TIMED_OUT: return mh_internal("the model has not answered in the request's time");
        default: return mh_internal("%.*s", (int)text.len, text.data);
    }
}
#else
static const mh_error *infer(const char *model, mh_tensors inputs, mh_tensors *outputs) {
    if (answer == NULL) return mh_internal("a test says what models answer: mh_models_answer_with");
    return answer(model, inputs, outputs);
}
#endif

const mh_error *mh_infer(const char *model, mh_tensors inputs, mh_tensors *outputs) { return infer(model, inputs, outputs); }
