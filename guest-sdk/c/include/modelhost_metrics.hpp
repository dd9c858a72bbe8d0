/* Metrics of the handler's own, in C++: modelhost_metrics.h with types.
 *
 *     static mh::counter flowers("flowers_total", "Flowers by species", {"species"});
 *     if (auto counted = flowers.add(1, {species}); !counted) return std::unexpected(counted.error());
 *
 * A metric is static. A name, a value of a label or a number that cannot be used is an error and changes nothing. */
#ifndef MODELHOST_METRICS_HPP
#define MODELHOST_METRICS_HPP

#include <modelhost.hpp>
#include <modelhost_metrics.h>

#include <initializer_list>
#include <span>

namespace mh {

/* What the kinds have in common: the names of at most 8 labels. */
class metric {
protected:
    using values = std::initializer_list<std::string_view>;
    using change_function = const mh_error *(mh_metric *, double, mh_text_list);

    constexpr metric(const char *name, const char *help, std::initializer_list<const char *> labels,
                     std::span<const double> bounds = {})
        : raw_{name, help, {}, bounds.data(), bounds.size(), 0} {
        std::size_t at = 0;
        for (const char *label : labels) {
            if (at < MH_MOST_LABELS) raw_.labels[at++] = label;
        }
    }

    result<void> change(change_function *function, double number, values given) {
        mh_str values[MH_MOST_LABELS] = {};
        std::size_t at = 0;
        for (std::string_view value : given) {
            if (at < MH_MOST_LABELS) values[at++] = raw(value);
        }
        return done(function(&raw_, number, {values, given.size()}));
    }

private:
    mh_metric raw_;
};

/* A number that only grows. A name that does not end in `_total` gets it. */
class counter : metric {
public:
    constexpr counter(const char *name, const char *help, std::initializer_list<const char *> labels = {})
        : metric(name, help, labels) {}
    /* Adds a number that is not negative to the series with these values of the labels. */
    result<void> add(double by = 1, values labels = {}) { return change(mh_counter_add, by, labels); }
};

/* A number that goes up and down. Of all instances the one that set it last holds. */
class gauge : metric {
public:
    constexpr gauge(const char *name, const char *help, std::initializer_list<const char *> labels = {})
        : metric(name, help, labels) {}
    result<void> set(double value, values labels = {}) { return change(mh_gauge_set, value, labels); }
    result<void> add(double by, values labels = {}) { return change(mh_gauge_add, by, labels); }
};

/* The distribution of numbers over buckets. */
class histogram : metric {
public:
    /* The bounds are static: at most 30, each greater than the one before. Without, they are those of Prometheus,
     * 0.005 to 10. */
    constexpr histogram(const char *name, const char *help, std::initializer_list<const char *> labels = {},
                        std::span<const double> bounds = {})
        : metric(name, help, labels, bounds) {}
    /* Counts a number into the buckets. */
    result<void> observe(double value, values labels = {}) { return change(mh_histogram_observe, value, labels); }
};

}  // namespace mh

#endif
