//! How much a run may write that must not write to a store: what it writes itself stays in memory, and goes
//! with it.
//!
//! Place in the flow: beside the values and the objects of such runs, in `kv` and `blobs`. In: what each
//! entry takes. Out: whether there is room.

/// Most bytes that one run writes.
const MOST: usize = 16 << 20;
/// Bytes that an entry counts beside its name and its content; also one that is removed.
pub const ENTRY: usize = 64;

/// The bytes that one run has written.
#[derive(Debug, Default)]
pub struct Allowance(usize);

impl Allowance {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// Text for the handler: there is no room for them.
    pub fn charge(&mut self, bytes: usize) -> Result<(), String> {
        self.0 = self.0.saturating_add(bytes);
        match self.0 > MOST {
            false => Ok(()),
            true => Err(format!("a run that is not a request writes at most {MOST} bytes")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_no_request_writes_no_more_than_its_allowance() {
        let mut allowance = Allowance::default();
        assert_eq!(allowance.charge(MOST - 1), Ok(()));
        assert_eq!(allowance.charge(1), Ok(()));
        for more in [1, 0, usize::MAX] {
            assert!(allowance.charge(more).is_err_and(|text| text.contains("at most 16777216 bytes")));
        }
    }
}
