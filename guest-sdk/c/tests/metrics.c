/* Unit tests of metrics, whose numbers are in memory here. */
#include <math.h>
#include <string.h>

#include "../src/metrics_host.h"
#include "check.h"
#include "modelhost_metrics.h"

static const double bounds[] = {1, 10}, falling[] = {2, 1};
static mh_metric flowers = {.name = "flowers", .help = "Flowers by species", .labels = {"species", "size"}};
static mh_metric age = {.name = "age_seconds"};
static mh_metric words = {.name = "words", .labels = {"of"}, .bounds = bounds, .bounds_len = 2};

static bool has(const char *name, mh_text_list labels, double expected) {
    double value = 0;
    return mh_metric_value(name, labels, &value) && value == expected;
}

static void numbers_are_kept_by_series(void) {
    mh_text_list setosa = mh_labels(mh_text("setosa"), mh_text("1"));
    check(mh_counter_add(&flowers, 1, setosa) == NULL && mh_counter_add(&flowers, 2.5, setosa) == NULL, "a counter");
    mh_text_list pairs = mh_labels(mh_text("species"), mh_text("setosa"), mh_text("size"), mh_text("1"));
    check(has("flowers_total", pairs, 3.5), "it has the sum");
    double value = 0;
    check(!mh_metric_value("flowers_total", mh_no_labels, &value), "no other series");
    check(mh_gauge_set(&age, 12, mh_no_labels) == NULL && mh_gauge_add(&age, -2, mh_no_labels) == NULL, "a gauge");
    check(has("age_seconds", mh_no_labels, 10), "it has the difference");
    check(mh_histogram_observe(&words, 3, mh_labels(mh_text("x"))) == NULL, "a histogram");
    check(mh_histogram_observe(&words, 5, mh_labels(mh_text("x"))) == NULL, "a second number");
    check(has("words_count", mh_labels(mh_text("of"), mh_text("x")), 2), "the count");
    check(has("words_sum", mh_labels(mh_text("of"), mh_text("x")), 8), "the sum");
    mh_metrics_forget();
    check(!mh_metric_value("age_seconds", mh_no_labels, &value), "it is forgotten");
}

static void what_cannot_be_used_is_said(void) {
    char long_name[102] = "", long_value[202] = "";
    memset(long_name, 'a', 101);
    memset(long_value, 'a', 201);
    mh_text_list one = mh_labels(mh_text(long_value));
    struct {
        mh_metric metric;
        double number;
        mh_text_list labels;
        const char *expected;
    } cases[] = {
        {{.name = ""}, 1, mh_no_labels, "a name of 0 bytes, expected 1 to 100"},
        {{.name = long_name}, 1, mh_no_labels, "a name of 101 bytes, expected 1 to 100"},
        {{.name = "a-b"}, 1, mh_no_labels, "the name `a-b` has other characters"},
        {{.name = "9a"}, 1, mh_no_labels, "the name `9a` has other characters"},
        {{.name = "modelhost_a"}, 1, mh_no_labels, "the metric `modelhost_a` begins with `modelhost_`"},
        {{.name = "a_sum"}, 1, mh_no_labels, "the metric `a_sum` ends in `_sum`"},
        {{.name = "a_total"}, 1, mh_no_labels, "the metric `a_total` ends in `_total`"},
        {{.name = "a\xff"}, 1, mh_no_labels, "a name or a value of a label that is no UTF-8"},
        {{.name = "a", .help = "x\ny"}, 1, mh_no_labels, "the help text of `a` is not one line"},
        {{.name = "a", .bounds = falling, .bounds_len = 2}, 1, mh_no_labels, "the bound 1 of `a`"},
        {{.name = "a", .labels = {"le"}}, 1, mh_labels(mh_text("")), "the label `le` of `a`"},
        {{.name = "a", .labels = {"__b"}}, 1, mh_labels(mh_text("")), "the label `__b` of `a`"},
        {{.name = "a", .labels = {"b", "b"}}, 1, mh_labels(mh_text(""), mh_text("")), "`a` has the label `b` twice"},
        {{.name = "a", .labels = {"b"}}, 1, mh_no_labels, "0 values for the 1 labels of `a`"},
        {{.name = "a", .labels = {"b"}}, 1, one, "a value of 201 bytes of the label `b`"},
        {{.name = "a", .labels = {"b"}}, 1, mh_labels(mh_text("\xff")), "a name or a value of a label that is no UTF-8"},
        {{.name = "a"}, INFINITY, mh_no_labels, "`a` takes a finite number"},
    };
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        const mh_error *error = mh_histogram_observe(&cases[at].metric, cases[at].number, cases[at].labels);
        check(error != NULL && mh_reason_of(error) == MH_REASON_INVALID, cases[at].expected);
        mh_str text = mh_error_text(error);
        size_t len = strlen(cases[at].expected);
        check(text.len >= len && memcmp(text.data, cases[at].expected, len) == 0, cases[at].expected);
    }
    static mh_metric counter = {.name = "a"};
    check(mh_counter_add(&counter, -1, mh_no_labels) != NULL, "a counter does not shrink");
    double value = 0;
    check(!mh_metric_value("a_total", mh_no_labels, &value), "and nothing is changed");
}

int main(void) {
    numbers_are_kept_by_series();
    what_cannot_be_used_is_said();
    mh_call_over();
    mh_metrics_forget();
    return 0;
}
