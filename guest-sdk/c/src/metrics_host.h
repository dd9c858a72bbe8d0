/* The contract's `metrics` as the component model has it in a module. In a test, metrics_in_tests.c defines its
 * functions. */
#ifndef MODELHOST_METRICS_HOST_H
#define MODELHOST_METRICS_HOST_H

#include "internal.h"
#include "modelhost_metrics.h"

#ifdef __wasm__
#define METRICS(name) __attribute__((import_module("modelhost:handler/metrics@0.1.0"), import_name(name)))
#else
#define METRICS(name)
#endif

/* In the order of the contract. */
enum { MH_COUNTER, MH_GAUGE, MH_HISTOGRAM };

typedef struct {
    mh_str name, value;
} mh_label;

typedef struct {
    uint8_t is_error;
    mh_str text;
} mh_metrics_result;

#ifdef __wasm__
_Static_assert(sizeof(mh_metrics_result) == 12 && sizeof(mh_label) == 16, "the result and the labels");
#endif

#define CHANGE \
    const char *name, size_t name_len, double number, const mh_label *labels, size_t labels_len, mh_metrics_result *result

METRICS("describe")
void mh_host_metrics_describe(const char *name, size_t name_len, int32_t kind, const char *help, size_t help_len,
                              const double *bounds, size_t bounds_len, mh_metrics_result *result);
METRICS("add") void mh_host_metrics_add(CHANGE);
METRICS("set") void mh_host_metrics_set(CHANGE);
METRICS("change") void mh_host_metrics_change(CHANGE);
METRICS("observe") void mh_host_metrics_observe(CHANGE);

#endif
