//! What is rendered of the metrics that handlers make, and what is dropped.

use prometheus::Opts;

use super::*;

fn families() -> CustomFamilies {
    CustomFamilies::new(IntCounterVec::new(Opts::new("refused", "refused"), &["endpoint"]).unwrap())
}

fn series(kind: CustomKind, name: &str, labels: &[(&str, &str)]) -> CustomSeries {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    CustomSeries { kind, name: name.to_owned(), labels }
}

fn count(maker: &CustomMaker, it: (CustomKind, &str, &[(&str, &str)]), change: CustomChange) {
    if !maker.count(&series(it.0, it.1, it.2), change) {
        maker.begin(series(it.0, it.1, it.2), change);
    }
}

fn text(families: &CustomFamilies) -> String {
    prometheus::TextEncoder::new().encode_to_string(&families.gather()).unwrap()
}

const FLOWERS: (CustomKind, &str, &[(&str, &str)]) =
    (CustomKind::Counter, "flowers_total", &[("species", "set\"osa")]);
const AGE: (CustomKind, &str, &[(&str, &str)]) = (CustomKind::Gauge, "age", &[]);
const WORDS: (CustomKind, &str, &[(&str, &str)]) = (CustomKind::Histogram, "words", &[]);

#[test]
fn every_kind_is_rendered() {
    let families = families();
    let (iris, other) = (families.endpoint("iris").maker(100), families.endpoint("other").maker(100));
    iris.describe(CustomKind::Histogram, "words".to_owned(), "Words.".to_owned(), vec![1.0, 10.0]);
    for change in [1.0, 0.5] {
        count(&iris, FLOWERS, CustomChange::Add(change));
    }
    count(&other, FLOWERS, CustomChange::Add(3.0));
    count(&iris, AGE, CustomChange::Set(7.0));
    count(&iris, AGE, CustomChange::Add(-8.5));
    for value in [1.0, 2.0, 30.0] {
        count(&iris, WORDS, CustomChange::Observe(value));
    }
    let expected = "# HELP age Made by a handler.\n# TYPE age gauge\nage{endpoint=\"iris\"} -1.5\n\
        # HELP flowers_total Made by a handler.\n# TYPE flowers_total counter\n\
        flowers_total{endpoint=\"iris\",species=\"set\\\"osa\"} 1.5\n\
        flowers_total{endpoint=\"other\",species=\"set\\\"osa\"} 3\n\
        # HELP words Words.\n# TYPE words histogram\nwords_bucket{endpoint=\"iris\",le=\"1\"} 1\n\
        words_bucket{endpoint=\"iris\",le=\"10\"} 2\nwords_bucket{endpoint=\"iris\",le=\"+Inf\"} 3\n\
        words_sum{endpoint=\"iris\"} 33\nwords_count{endpoint=\"iris\"} 3\n";
    assert_eq!(text(&families), expected);
    families.forget(&HashSet::from(["iris"]));
    assert!(
        text(&families).ends_with("counter\nflowers_total{endpoint=\"other\",species=\"set\\\"osa\"} 3\n")
    );
}

#[test]
fn series_are_bounded_and_those_of_handlers_that_are_gone_make_room() {
    let families = families();
    let metrics = families.endpoint("iris");
    let (old, refused) = (metrics.maker(5), || families.0.refused.with_label_values(&["iris"]).get());
    for number in 0..8 {
        let labels = [("n", &*number.to_string())];
        count(&old, (CustomKind::Counter, "a_total", &labels), CustomChange::Add(1.0));
    }
    assert_eq!((text(&families).matches("a_total{").count(), refused()), (5, 3));
    let new = metrics.maker(5);
    count(&new, AGE, CustomChange::Set(1.0));
    assert_eq!(refused(), 4, "the old handler still serves");
    count(&new, (CustomKind::Counter, "a_total", &[("n", "0")]), CustomChange::Add(1.0));
    drop(old);
    count(&new, AGE, CustomChange::Set(1.0));
    assert_eq!(text(&families).matches("{endpoint=\"iris\"").count(), 2, "{}", text(&families));
    assert!(text(&families).contains("a_total{endpoint=\"iris\",n=\"0\"} 2\n"));
    // A histogram of 11 bounds is 13.
    count(&new, WORDS, CustomChange::Observe(1.0));
    assert_eq!(refused(), 5);
}

#[test]
fn a_name_has_one_kind() {
    let families = families();
    let (one, other) = (families.endpoint("one").maker(9), families.endpoint("other").maker(9));
    count(&one, AGE, CustomChange::Set(1.0));
    let wrong = (CustomKind::Histogram, "age", &[][..]);
    other.describe(CustomKind::Histogram, "age".to_owned(), String::new(), vec![1.0]);
    count(&other, wrong, CustomChange::Observe(1.0));
    count(&other, wrong, CustomChange::Observe(1.0));
    assert_eq!(families.0.refused.with_label_values(&["other"]).get(), 2);
    assert_eq!(text(&families).matches("age").count(), 3, "{}", text(&families));
    // The endpoint that had it is gone, and so is the handler that was refused.
    families.forget(&HashSet::from(["one", "other"]));
    let other = families.endpoint("other").maker(99);
    count(&other, wrong, CustomChange::Observe(1.0));
    assert!(text(&families).contains("age_count{endpoint=\"other\"} 1"), "{}", text(&families));
}
