/* Metrics of the handler's own. A handler that makes none links none of it. */
#include "metrics_host.h"

typedef void host_function(CHANGE);

static const mh_error *told(mh_str text) { return mh_because(MH_REASON_INVALID, "%.*s", (int)text.len, text.data); }

static const mh_error *readable(mh_str text) {
    return mh_is_text(text) ? NULL : mh_because(MH_REASON_INVALID, "a name or a value of a label that is no UTF-8");
}

static const mh_error *describe(mh_metric *metric, mh_str name, int32_t kind) {
    if (metric->described == mh_inits + 1) return NULL;
    mh_str help = mh_text(metric->help == NULL ? "" : metric->help);
    const mh_error *error = readable(help);
    if (error != NULL) return error;
    mh_metrics_result result;
    /* A list without elements has a place too. */
    const double *bounds = metric->bounds_len > 0 ? metric->bounds : (const double[]){0};
    mh_host_metrics_describe(name.data, name.len, kind, help.data, help.len, bounds, metric->bounds_len, &result);
    if (result.is_error) return told(result.text);
    metric->described = mh_inits + 1;
    return NULL;
}

static const mh_error *change(mh_metric *metric, int32_t kind, host_function *function, double number, mh_text_list values) {
    mh_str name = mh_text(metric->name == NULL ? "" : metric->name);
    size_t count = 0;
    while (count < MH_MOST_LABELS && metric->labels[count] != NULL) count++;
    if (count != values.len) {
        return mh_because(MH_REASON_INVALID, "%zu values for the %zu labels of `%s`", values.len, count, name.data);
    }
    mh_label labels[MH_MOST_LABELS];
    const mh_error *error = readable(name);
    for (size_t at = 0; at < count && error == NULL; at++) {
        labels[at] = (mh_label){mh_text(metric->labels[at]), values.items[at]};
        error = readable(labels[at].name);
        if (error == NULL) error = readable(labels[at].value);
    }
    if (error == NULL) error = describe(metric, name, kind);
    if (error != NULL) return error;
    mh_metrics_result result;
    function(name.data, name.len, number, labels, count, &result);
    return result.is_error ? told(result.text) : NULL;
}

const mh_error *mh_counter_add(mh_metric *counter, double by, mh_text_list labels) {
    return change(counter, MH_COUNTER, mh_host_metrics_add, by, labels);
}

const mh_error *mh_gauge_set(mh_metric *gauge, double value, mh_text_list labels) {
    return change(gauge, MH_GAUGE, mh_host_metrics_set, value, labels);
}

const mh_error *mh_gauge_add(mh_metric *gauge, double by, mh_text_list labels) {
    return change(gauge, MH_GAUGE, mh_host_metrics_change, by, labels);
}

const mh_error *mh_histogram_observe(mh_metric *histogram, double value, mh_text_list labels) {
    return change(histogram, MH_HISTOGRAM, mh_host_metrics_observe, value, labels);
}
