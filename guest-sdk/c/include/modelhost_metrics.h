/* Metrics of the handler's own, in C: counters, gauges and histograms, which stand in /metrics beside the server's.
 *
 *     static mh_metric flowers = {.name = "flowers_total", .help = "Flowers by species", .labels = {"species"}};
 *     const mh_error *error = mh_counter_add(&flowers, 1, mh_labels(mh_text("setosa")));
 *
 * A metric is static, and of one kind: it is used by the functions of that kind alone. A name, a value of a label or a
 * number that cannot be used is an error, MH_REASON_INVALID, and changes nothing. Outside a component, in a test, the
 * numbers are in memory: mh_metric_value() reads them, and mh_metrics_forget() begins anew.
 */
#ifndef MODELHOST_METRICS_H
#define MODELHOST_METRICS_H

#include <modelhost.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MH_MOST_LABELS = 8 };

typedef struct {
    /* Of letters, digits and `_`. A counter's that does not end in `_total` gets it. */
    const char *name;
    /* One line of at most 200 bytes, or NULL. */
    const char *help;
    /* The names of its labels; NULL ends them. */
    const char *labels[MH_MOST_LABELS];
    /* Of a histogram: at most 30 upper bounds, each greater than the one before. Without, they are those of
     * Prometheus, 0.005 to 10. */
    const double *bounds;
    size_t bounds_len;
    /* The SDK's: whether the host has the help text. */
    uint32_t described;
} mh_metric;

/* The values of a metric's labels, each a mh_str, in the order of their names. */
#define mh_labels(...) \
    ((mh_text_list){(const mh_str[]){__VA_ARGS__}, sizeof((const mh_str[]){__VA_ARGS__}) / sizeof(mh_str)})
/* Those of a metric that has none. */
#define mh_no_labels ((mh_text_list){NULL, 0})

/* Adds to a counter a number that is not negative. */
const mh_error *mh_counter_add(mh_metric *counter, double by, mh_text_list labels);
/* Sets a gauge. Of all instances the one that set it last holds. */
const mh_error *mh_gauge_set(mh_metric *gauge, double value, mh_text_list labels);
/* Adds to a gauge. */
const mh_error *mh_gauge_add(mh_metric *gauge, double by, mh_text_list labels);
/* Counts a number into the buckets of a histogram. */
const mh_error *mh_histogram_observe(mh_metric *histogram, double value, mh_text_list labels);

/* For tests: the number of a series, and whether there is one; `labels` are pairs of names and values, in the order
 * that the metric has. Of a histogram `words` there are those of `words_count` and `words_sum`. */
bool mh_metric_value(const char *name, mh_text_list labels, double *value);
/* For tests: forgets all numbers, and frees their memory. */
void mh_metrics_forget(void);

#ifdef __cplusplus
}
#endif

#endif
