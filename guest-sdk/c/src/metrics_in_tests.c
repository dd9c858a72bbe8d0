/* What the host's metrics do, in memory, for tests; but for the limit of series. */
#ifndef __wasm__
#include <math.h>

#include "in_tests.h"
#include "metrics_host.h"

typedef struct series {
    struct series *next;
    mh_str name;
    mh_label labels[MH_MOST_LABELS];
    size_t len;
    double number;
} series;

static mh_piece *pieces;
static series *all;

void mh_metrics_forget(void) {
    all = NULL;
    mh_free_stored(&pieces);
}

static series *find(mh_str name, const mh_label *labels, size_t len) {
    for (series *it = all; it != NULL; it = it->next) {
        bool same = it->len == len && mh_equal(it->name, name);
        for (size_t at = 0; at < len && same; at++) {
            same = mh_equal(it->labels[at].name, labels[at].name) && mh_equal(it->labels[at].value, labels[at].value);
        }
        if (same) return it;
    }
    return NULL;
}

bool mh_metric_value(const char *name, mh_text_list labels, double *value) {
    mh_label pairs[MH_MOST_LABELS];
    size_t len = labels.len / 2;
    if (len > MH_MOST_LABELS) return false;
    for (size_t at = 0; at < len; at++) pairs[at] = (mh_label){labels.items[2 * at], labels.items[2 * at + 1]};
    const series *found = find(mh_text(name), pairs, len);
    if (found != NULL) *value = found->number;
    return found != NULL;
}

static double *number_of(mh_str name, const mh_label *labels, size_t len) {
    series *found = find(name, labels, len);
    if (found == NULL) {
        found = mh_stored(&pieces, sizeof *found);
        *found = (series){.next = all, .name = mh_stored_text(&pieces, name), .len = len};
        for (size_t at = 0; at < len; at++) {
            found->labels[at].name = mh_stored_text(&pieces, labels[at].name);
            found->labels[at].value = mh_stored_text(&pieces, labels[at].value);
        }
        all = found;
    }
    return &found->number;
}

static bool refuse(mh_metrics_result *result, mh_str text) {
    *result = (mh_metrics_result){1, text};
    return false;
}

static bool begins(mh_str text, const char *with) {
    return text.len >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

static bool ends(mh_str text, const char *with) {
    return text.len >= strlen(with) && memcmp(text.data + text.len - strlen(with), with, strlen(with)) == 0;
}

/* Whether the characters and the length of a name are those of one. */
static bool is_written(mh_str name, size_t most, mh_metrics_result *result) {
    if (name.len < 1 || name.len > most) {
        return refuse(result, mh_format("a name of %zu bytes, expected 1 to %zu", name.len, most));
    }
    for (size_t at = 0; at < name.len; at++) {
        char c = name.data[at];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (is_letter || (at > 0 && c >= '0' && c <= '9')) continue;
        return refuse(result, mh_format("the name `%.*s` has other characters than letters, digits and `_`, or begins with a digit",
                                        (int)name.len, name.data));
    }
    return true;
}

/* Whether a name is one of a metric; a counter's is given its end. */
static bool is_named(mh_str *name, int32_t kind, mh_metrics_result *result) {
    static const char *const beginnings[] = {"modelhost_", "process_"};
    static const char *const parts[] = {"_bucket", "_count", "_sum", "_created"};
    if (!is_written(*name, 100, result)) return false;
    int len = (int)name->len;
    for (size_t at = 0; at < 2; at++) {
        if (!begins(*name, beginnings[at])) continue;
        return refuse(result, mh_format("the metric `%.*s` begins with `%s`, which names the server's", len, name->data, beginnings[at]));
    }
    for (size_t at = 0; at < 4; at++) {
        if (!ends(*name, parts[at])) continue;
        return refuse(result, mh_format("the metric `%.*s` ends in `%s`, which names a part of one", len, name->data, parts[at]));
    }
    if (ends(*name, "_total")) {
        if (kind == MH_COUNTER) return true;
        return refuse(result, mh_format("the metric `%.*s` ends in `_total`, which names a counter", len, name->data));
    }
    if (kind == MH_COUNTER) *name = mh_format("%.*s_total", len, name->data);
    return true;
}

static bool are_labels(mh_str metric, const mh_label *labels, size_t len, mh_metrics_result *result) {
    for (size_t at = 0; at < len; at++) {
        mh_str name = labels[at].name;
        if (!is_written(name, 50, result)) return false;
        bool is_servers = begins(name, "__") || mh_equal(name, mh_text("endpoint")) || mh_equal(name, mh_text("le")) ||
                          mh_equal(name, mh_text("quantile"));
        if (is_servers) {
            return refuse(result, mh_format("the label `%.*s` of `%.*s` has a name of the server's", (int)name.len, name.data,
                                            (int)metric.len, metric.data));
        }
        for (size_t before = 0; before < at; before++) {
            if (!mh_equal(labels[before].name, name)) continue;
            return refuse(result, mh_format("`%.*s` has the label `%.*s` twice", (int)metric.len, metric.data, (int)name.len, name.data));
        }
        if (labels[at].value.len > 200) {
            return refuse(result, mh_format("a value of %zu bytes of the label `%.*s`, expected at most 200", labels[at].value.len,
                                            (int)name.len, name.data));
        }
    }
    return true;
}

void mh_host_metrics_describe(const char *name, size_t name_len, int32_t kind, const char *help, size_t help_len,
                              const double *bounds, size_t bounds_len, mh_metrics_result *result) {
    mh_str of = {name, name_len};
    *result = (mh_metrics_result){0, {NULL, 0}};
    if (!is_named(&of, kind, result)) return;
    if (help_len > 200 || memchr(help, '\n', help_len) != NULL || memchr(help, '\r', help_len) != NULL) {
        refuse(result, mh_format("the help text of `%.*s` is not one line of at most 200 bytes", (int)of.len, of.data));
    } else if (bounds_len > 30) {
        refuse(result, mh_format("`%.*s` has %zu buckets, expected at most 30", (int)of.len, of.data, bounds_len));
    }
    for (size_t at = 0; at < bounds_len && !result->is_error; at++) {
        if (isfinite(bounds[at]) && (at == 0 || bounds[at] > bounds[at - 1])) continue;
        refuse(result, mh_format("the bound %g of `%.*s` is not finite, or not greater than the one before", bounds[at], (int)of.len, of.data));
    }
}

static bool is_change(mh_str *name, int32_t kind, double number, const mh_label *labels, size_t len, mh_metrics_result *result) {
    *result = (mh_metrics_result){0, {NULL, 0}};
    if (!is_named(name, kind, result)) return false;
    if (!isfinite(number) || (kind == MH_COUNTER && number < 0)) {
        return refuse(result, mh_format("`%.*s` takes a finite number, a counter none below 0, and not %g", (int)name->len, name->data, number));
    }
    return are_labels(*name, labels, len, result);
}

void mh_host_metrics_add(CHANGE) {
    mh_str of = {name, name_len};
    if (is_change(&of, MH_COUNTER, number, labels, labels_len, result)) *number_of(of, labels, labels_len) += number;
}

void mh_host_metrics_set(CHANGE) {
    mh_str of = {name, name_len};
    if (is_change(&of, MH_GAUGE, number, labels, labels_len, result)) *number_of(of, labels, labels_len) = number;
}

void mh_host_metrics_change(CHANGE) {
    mh_str of = {name, name_len};
    if (is_change(&of, MH_GAUGE, number, labels, labels_len, result)) *number_of(of, labels, labels_len) += number;
}

void mh_host_metrics_observe(CHANGE) {
    mh_str of = {name, name_len};
    if (!is_change(&of, MH_HISTOGRAM, number, labels, labels_len, result)) return;
    *number_of(mh_format("%.*s_count", (int)of.len, of.data), labels, labels_len) += 1;
    *number_of(mh_format("%.*s_sum", (int)of.len, of.data), labels, labels_len) += number;
}
#endif
