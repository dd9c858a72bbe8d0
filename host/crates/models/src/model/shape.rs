//! How many rows a run has where the engine prepares its operators for the shapes of its inputs.
//!
//! Flow: `sessions → [shape] → batch → the engine`.
//! In:   the rows that a run needs, the time that runs took. Out: the rows that it gets; the rest is padding.
//!
//! On a GPU, ONNX Runtime plans every convolution anew when the shape of its input is another than in the
//! last run: some milliseconds each, together many times the run itself. Batches of ever changing sizes would
//! do little else. So a run gets the rows of the last one as long as that is cheaper: a smaller batch is
//! padded, until the time spent on padding, since a run last needed all the rows, is that of two changes, to
//! fewer rows and back. Nothing is padded where other rows cost little, which the runs themselves tell.
//!
//! Invariants: no run gets fewer rows than it needs, or more than a batch may have; over time padding and
//! changes cost at most a few times what the best choice would.

use std::time::Duration;

use crate::tensor::Tensor;

/// Another number of rows is cheap if a run takes more than this many times what it costs.
const CHEAP: u32 = 4;

/// The shape of a session's last run, and what it costs to leave it.
#[derive(Debug, Default)]
pub struct LastShape {
    /// The extents of each input but for the first.
    rest: Vec<Box<[u64]>>,
    rows: usize,
    /// Time of a run that has the shape of the one before.
    run: Option<Duration>,
    /// Time that a run with other rows takes on top.
    change: Option<Duration>,
    /// Time that padding took since a run last needed all rows.
    padded: Duration,
    /// The most rows that a run needed in this time.
    needed: usize,
}

impl LastShape {
    /// The rows for a run that needs `rows`, of at most `most`. `inputs`: of any of its requests.
    pub fn rows(&mut self, inputs: &[Tensor], rows: usize, most: usize) -> usize {
        if !self.fits(inputs) || self.is_cheap() || rows.max(self.rows) > most {
            return rows;
        }
        if rows == self.rows {
            self.begin();
            return rows;
        }
        if rows > self.rows {
            // So that a growing load changes the shape only a few times.
            return rows.next_power_of_two().min(most);
        }
        // A run of the same shape first, then one of another, to know what each takes.
        let Some(run) = self.run else { return self.rows };
        let Some(change) = self.change else { return rows };
        self.padded += run.mul_f64((self.rows - rows) as f64 / self.rows as f64);
        self.needed = self.needed.max(rows);
        if self.padded < change * 2 {
            return self.rows;
        }
        self.needed
    }

    /// Notes a run, with the inputs that it had, all of `rows` rows.
    pub fn ran(&mut self, inputs: &[Tensor], rows: usize, took: Duration) {
        if !self.fits(inputs) {
            self.rest = inputs.iter().map(|input| rest(input).into()).collect();
            // Of other extents nothing is known but this.
            self.run = self.change.map(|change| took.saturating_sub(change));
        } else if rows == self.rows {
            self.run = Some(average(self.run, took));
            return;
        } else if let Some(run) = self.run {
            // More rows take longer by themselves, so that growth may tell nothing.
            let expected = run.mul_f64((rows as f64 / self.rows as f64).max(1.0));
            if rows < self.rows || took > expected {
                self.change = Some(average(self.change, took.saturating_sub(expected)));
            }
        }
        self.rows = rows;
        self.begin();
    }

    /// Forgets the last shape: a run was made that has none.
    pub fn forget(&mut self) {
        self.rest.clear();
    }

    fn fits(&self, inputs: &[Tensor]) -> bool {
        self.rest.len() == inputs.len()
            && self.rest.iter().zip(inputs).all(|(last, input)| **last == *rest(input))
    }

    fn is_cheap(&self) -> bool {
        self.run.zip(self.change).is_some_and(|(run, change)| change * CHEAP < run)
    }

    fn begin(&mut self) {
        (self.padded, self.needed) = (Duration::ZERO, 0);
    }
}

/// The extents of `input` but for its rows.
fn rest(input: &Tensor) -> &[u64] {
    input.shape.get(1..).unwrap_or_default()
}

/// A quarter of the way from the mean so far to `value`.
fn average(mean: Option<Duration>, value: Duration) -> Duration {
    mean.map_or(value, |mean| (mean * 3 + value) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Datatype;

    const MOST: usize = 16;

    fn image(rows: usize, side: u64) -> Vec<Tensor> {
        let shape = vec![rows as u64, side];
        let data = vec![0; rows * side as usize].into();
        vec![Tensor::new("x".into(), Datatype::Uint8, shape, data).unwrap()]
    }

    /// A device on which a run takes `fixed` and `row` for each of its rows, and `change` more if its shape
    /// is another than the last.
    struct Device {
        fixed: u64,
        row: u64,
        change: u64,
        last: Option<(usize, u64)>,
        shape: LastShape,
        spent: u64,
    }

    impl Device {
        fn new(fixed: u64, row: u64, change: u64) -> Device {
            Device { fixed, row, change, last: None, shape: LastShape::default(), spent: 0 }
        }

        /// Runs `needed` rows of `side`: how many it was given.
        fn run(&mut self, needed: usize, side: u64) -> usize {
            let rows = self.shape.rows(&image(needed, side), needed, MOST);
            assert!((needed..=MOST.max(needed)).contains(&rows), "{rows} for {needed}");
            let changed = self.last.replace((rows, side)).is_some_and(|last| last != (rows, side));
            let took = self.fixed + self.row * rows as u64 + if changed { self.change } else { 0 };
            self.shape.ran(&image(rows, side), rows, Duration::from_micros(took));
            self.spent += took;
            rows
        }

        fn runs(&mut self, needed: &[usize]) -> Vec<usize> {
            needed.iter().map(|needed| self.run(*needed, 4)).collect()
        }
    }

    #[test]
    fn rows_stay_while_a_change_costs_more() {
        // As an image classifier on an H200: 1.3 ms, 0.2 a row, 50 for another shape.
        let mut device = Device::new(1300, 200, 50_000);
        // More rows, to the next power of two; then those that there are.
        assert_eq!(device.runs(&[1, 1, 3, 4, 2, 4, 1, 1, 3]), [1, 1, 4, 4, 4, 4, 4, 4, 4]);
        assert_eq!(device.runs(&[5, 6, 8, 7, 9, 16, 3]), [8, 8, 8, 8, 16, 16, 16]);
        // Alone for long: as few as were needed since, which was 3, and then 1.
        let alone: Vec<usize> = device.runs(&[1; 200]);
        assert_eq!((alone[0], alone[199]), (16, 1));
        assert!(alone.is_sorted_by(|one, next| one >= next), "{alone:?}");
        // A batch of the largest size now and then keeps its shape.
        let mixed: Vec<usize> = (0..400).map(|turn| if turn % 10 == 0 { 16 } else { 1 }).collect();
        assert!(device.runs(&mixed).iter().skip(1).all(|rows| *rows == 16));
    }

    #[test]
    fn nothing_is_padded_where_a_change_is_cheap() {
        // As an encoder there.
        let mut device = Device::new(1000, 10, 0);
        let mixed: Vec<usize> = (0..200).map(|turn| 1 + turn * 7 % 16).collect();
        let ran = device.runs(&mixed);
        assert_eq!(ran[20..], mixed[20..]);
    }

    #[test]
    fn other_extents_change_the_shape_anyway() {
        let mut device = Device::new(1300, 200, 50_000);
        device.runs(&[1, 1, 8, 8]);
        assert_eq!(device.run(3, 5), 3);
        assert_eq!(device.run(3, 4), 3);
        assert_eq!(device.run(2, 4), 3);
        device.shape.forget();
        assert_eq!(device.run(2, 4), 2);
        // More than a batch may have, by one request: as it came.
        assert_eq!(device.run(40, 4), 40);
    }

    #[test]
    fn a_run_has_no_more_rows_than_its_own_batches() {
        let mut device = Device::new(1300, 200, 50_000);
        device.runs(&[1, 1, 16, 16]);
        device.runs(&[12; 40]);
        // Of another endpoint with the same model, whose batches are smaller.
        for _ in 0..200 {
            for needed in [5, 3] {
                let rows = device.shape.rows(&image(needed, 4), needed, 8);
                assert!((needed..=8).contains(&rows), "{rows}");
                device.shape.ran(&image(rows, 4), rows, Duration::from_millis(51));
            }
        }
    }

    #[test]
    fn large_extents_before_leave_the_estimates_of_small_ones() {
        let mut device = Device::new(1300, 200, 50_000);
        device.runs(&[1, 1, 7, 7]);
        device.fixed = 250_000;
        for _ in 0..5 {
            device.run(1, 900);
        }
        device.fixed = 1300;
        let before = device.spent;
        for turn in 0..200 {
            device.run(1 + turn % 2 * 6, 4);
        }
        let spent = device.spent - before;
        assert!(spent < 200 * 5000, "{spent}");
    }

    #[test]
    fn random_sizes_cost_little_more_than_the_best_choice() {
        for (fixed, row, change) in
            [(1300, 200, 50_000), (1000, 10, 0), (100, 5000, 20_000), (500, 500, 2000)]
        {
            for largest in [2, 5, 16] {
                let mut device = Device::new(fixed, row, change);
                let (mut state, mut padded, mut exact, mut last) = (1u64, 0, 0, 0);
                for _ in 0..2000 {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let needed = 1 + (state >> 33) as usize % largest;
                    device.run(needed, 4);
                    padded += fixed + row * largest as u64;
                    exact += fixed + row * needed as u64 + if needed == last { 0 } else { change };
                    last = needed;
                }
                let best = padded.min(exact);
                assert!(
                    device.spent < best * 8 / 5,
                    "{} of {best}: {fixed} {row} {change} {largest}",
                    device.spent
                );
            }
        }
    }
}
