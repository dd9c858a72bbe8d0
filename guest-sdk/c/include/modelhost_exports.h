/* The macros that make functions the component's exports, and what they expand to. Included by modelhost.h. */
#ifndef MODELHOST_EXPORTS_H
#define MODELHOST_EXPORTS_H

#ifdef __wasm__
#define MH_EXPORT(name) __attribute__((export_name(name)))
#else
/* In unit tests the macros define functions that are not called. */
#define MH_EXPORT(name)
#endif

#ifdef __cplusplus
#define MH_C extern "C"
#else
#define MH_C
#endif

void *mh_run_init(mh_init_function *function, const char *data, size_t len);
void *mh_run_pre(mh_pre_function *function, const mh_sample *sample, int32_t context);
void *mh_run_post(mh_post_function *function, mh_tensors given, int32_t context);
void *mh_run_tensors(mh_tensors_function *function, mh_tensors given, int32_t context);
void *mh_declare(const mh_input *inputs, size_t count);
void mh_call_over(void);

#define MH_PREFIX "modelhost:handler/"
#define MH_POST_RETURN(symbol, name)                                                                        \
    MH_C MH_EXPORT("cabi_post_" MH_PREFIX name) void symbol##_over(void *result);                           \
    void symbol##_over(void *result) {                                                                      \
        (void)result;                                                                                       \
        mh_call_over();                                                                                     \
    }

/* Runs once, when the handler is loaded, with the endpoint's metadata as JSON text. */
#define MH_INIT(function)                                                                                   \
    MH_C MH_EXPORT(MH_PREFIX "init@0.1.0#init") void *mh_init(const char *data, size_t len);                \
    void *mh_init(const char *data, size_t len) { return mh_run_init(function, data, len); }                \
    MH_POST_RETURN(mh_init, "init@0.1.0#init")

/* From a request's body to the model's inputs. */
#define MH_PRE_INFERENCE(function)                                                                          \
    MH_C MH_EXPORT(MH_PREFIX "pre-inference@0.1.0#pre-inference") void *mh_pre_inference(                   \
        const char *type, size_t type_len, const uint8_t *body, size_t body_len, int32_t context);          \
    void *mh_pre_inference(                                                                                 \
        const char *type, size_t type_len, const uint8_t *body, size_t body_len, int32_t context) {         \
        mh_sample sample = {{type, type_len}, {body, body_len}};                                            \
        return mh_run_pre(function, &sample, context);                                                      \
    }                                                                                                       \
    MH_POST_RETURN(mh_pre_inference, "pre-inference@0.1.0#pre-inference")

#define MH_OF_TENSORS(symbol, name, run, function)                                                          \
    MH_C MH_EXPORT(MH_PREFIX name) void *symbol(mh_tensor *items, size_t len, int32_t context);             \
    void *symbol(mh_tensor *items, size_t len, int32_t context) {                                           \
        mh_tensors given = {items, len};                                                                    \
        return run(function, given, context);                                                               \
    }                                                                                                       \
    MH_POST_RETURN(symbol, name)

/* From the model's outputs, in the model's order, to the response. */
#define MH_POST_INFERENCE(function)                                                                         \
    MH_OF_TENSORS(mh_post_inference, "post-inference@0.1.0#post-inference", mh_run_post, function)

/* From a request's tensors (Open Inference Protocol) to the model's inputs. */
#define MH_PRE_INFERENCE_TENSORS(function)                                                                  \
    MH_OF_TENSORS(                                                                                          \
        mh_pre_tensors, "pre-inference-tensors@0.1.0#pre-inference-tensors", mh_run_tensors, function)

/* From the model's outputs to the tensors of the response. */
#define MH_POST_INFERENCE_TENSORS(function)                                                                 \
    MH_OF_TENSORS(                                                                                          \
        mh_post_tensors, "post-inference-tensors@0.1.0#post-inference-tensors", mh_run_tensors, function)

/* What the handler takes: an array of mh_input. */
#define MH_INPUT_SCHEMA(inputs)                                                                             \
    MH_C MH_EXPORT(MH_PREFIX "input-schema@0.1.0#input-schema") void *mh_input_schema(void);                \
    void *mh_input_schema(void) { return mh_declare(inputs, sizeof(inputs) / sizeof(inputs[0])); }          \
    MH_POST_RETURN(mh_input_schema, "input-schema@0.1.0#input-schema")

#endif
