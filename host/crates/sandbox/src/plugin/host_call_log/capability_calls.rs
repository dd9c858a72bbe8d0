//! The calls of capabilities that a handler makes.
//!
//! Place in the flow: a capability asks here before it calls the host. In: a call. Out: its answer, where an
//! earlier run or a recording has it; else the call is made, and its answer noted.
//! Invariants: calls of one capability stand in the order in which the handler made them; each known answer
//! is given once; a replay that asks for anything else than what was recorded has diverged.

use std::collections::BTreeSet;

use super::calls::NOT_KEPT;
use super::{HostCallLog, HostCallResult};
use crate::plugin::capability_list::each_capability;

/// A call of a capability, and its answer, if there was one.
pub trait LoggedCall: Listed + Clone {
    /// The answer, or why there is none.
    type Outcome: Clone;

    /// Its answer in the report of a replay that leaves its recording, such as "an answer of the store".
    const NAME: &'static str;

    /// Whether the other one asks the same.
    fn is_same(&self, other: &Self) -> bool;

    /// The answer; `None` if there was none by the end of the run.
    fn outcome(&self) -> Option<&Self::Outcome>;

    /// Sets the answer.
    fn set_outcome(&mut self, outcome: Option<Self::Outcome>);

    /// Bytes of it, its answer among them.
    fn size(&self) -> usize;

    /// The call for a person, without its values.
    fn description(&self) -> String;

    /// The part of it that looks like a secret, by its name.
    fn secret(&self) -> Option<&'static str>;
}

/// The place of a capability's calls among those of all.
pub trait Listed: Sized + 'static {
    /// Those of the run.
    fn list(lists: &mut CapabilityLists) -> &mut CallList<Self>;

    /// Those of an earlier or a recorded run.
    fn among(calls: &CapabilityCalls) -> &[Self];

    /// The result that stands for the call of this number.
    fn result(number: usize) -> HostCallResult;

    /// The number of the call that this result stands for.
    fn number(result: &HostCallResult) -> Option<usize>;
}

/// The calls of one capability in a run.
pub struct CallList<C> {
    made: Vec<C>,
    /// The known calls whose answers have been given.
    given: BTreeSet<usize>,
}

impl<C> Default for CallList<C> {
    fn default() -> CallList<C> {
        CallList { made: Vec::new(), given: BTreeSet::new() }
    }
}

/// The way of a call.
pub enum CallSource<O> {
    /// The earlier run had this answer.
    Known(O),
    /// The recorded one had.
    Recorded(O),
    /// The host is to be asked, and the answer noted under this number.
    Live(usize),
    /// In a replay: the recorded handler was stopped while it waited.
    CutOff,
    /// In a replay: the recorded handler asked for something else.
    Diverged,
}

macro_rules! calls {
    ($($name:ident: $capability:ident = $doc:literal
        $(, logs $call:ty as $draw:ident = $call_doc:literal)?;)*) => {
        /// The calls of a run, by capability.
        #[derive(Debug, Clone, Default)]
        pub struct CapabilityCalls {
            $($(
                #[doc = $call_doc]
                pub $name: Vec<$call>,
            )?)*
        }

        impl CapabilityCalls {
            /// Bytes of all.
            pub fn size(&self) -> usize {
                let size = 0;
                $($(let size = self.$name.iter().map(<$call as LoggedCall>::size).sum::<usize>() + size;)?)*
                size
            }

            /// The part of them that looks like a secret, by its name.
            pub fn secret(&self) -> Option<&'static str> {
                None$($(.or_else(|| self.$name.iter().find_map(<$call as LoggedCall>::secret)))?)*
            }
        }

        /// The calls of a run that is under way, by capability.
        #[derive(Default)]
        pub struct CapabilityLists {
            $($($name: CallList<$call>,)?)*
        }

        impl CapabilityLists {
            fn calls(&self) -> CapabilityCalls {
                CapabilityCalls { $($($name: <CallList<$call>>::calls(&self.$name),)?)* }
            }

            #[cfg(test)]
            pub(super) fn len(&self) -> usize {
                let len = 0;
                $($(let len = <CallList<$call>>::len(&self.$name) + len;)?)*
                len
            }
        }

        $($(
            impl Listed for $call {
                fn list(lists: &mut CapabilityLists) -> &mut CallList<$call> {
                    &mut lists.$name
                }

                fn among(calls: &CapabilityCalls) -> &[$call] {
                    &calls.$name
                }

                fn result(number: usize) -> HostCallResult {
                    HostCallResult::$draw(number)
                }

                fn number(result: &HostCallResult) -> Option<usize> {
                    if let HostCallResult::$draw(number) = result { Some(*number) } else { None }
                }
            }
        )?)*
    };
}

each_capability!(calls);

impl<C: Clone> CallList<C> {
    fn calls(&self) -> Vec<C> {
        self.made.clone()
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.made.len()
    }
}

impl HostCallLog {
    /// The handler makes this call.
    pub(in crate::plugin) fn called<C: LoggedCall>(&self, call: C) -> CallSource<C::Outcome> {
        let mut lists = self.own.lock();
        let CallList { made, given } = C::list(&mut lists.capabilities);
        if self.answers.is_some() {
            return self.recorded_call(&call);
        }
        let known = self.known.as_ref().and_then(|known| {
            let mut calls = C::among(&known.capabilities).iter().enumerate();
            calls.find(|(number, known)| known.is_same(&call) && !given.contains(number))
        });
        if let Some((number, known)) = known
            && let Some(outcome) = known.outcome()
        {
            given.insert(number);
            // Another run may be given this one's calls.
            if self.budget.take(known.size()) {
                made.push(known.clone());
            }
            return CallSource::Known(outcome.clone());
        }
        let number = made.len();
        if self.is_of_instance {
            self.note(C::result(number));
        }
        if !self.budget.take(call.size()) {
            return CallSource::Live(NOT_KEPT);
        }
        made.push(call);
        CallSource::Live(number)
    }

    /// The host's answer to the call of this number.
    pub(in crate::plugin) fn answered_call<C: LoggedCall>(&self, number: usize, outcome: &C::Outcome) {
        let mut lists = self.own.lock();
        let Some(call) = C::list(&mut lists.capabilities).made.get_mut(number) else { return };
        let before = call.size();
        call.set_outcome(Some(outcome.clone()));
        if !self.budget.take(call.size().saturating_sub(before)) {
            call.set_outcome(None);
        }
    }

    /// The calls of capabilities.
    pub fn capability_calls(&self) -> CapabilityCalls {
        self.own.lock().capabilities.calls()
    }

    fn recorded_call<C: LoggedCall>(&self, call: &C) -> CallSource<C::Outcome> {
        let number = match self.next_number(C::NAME, C::number) {
            Ok(number) => number,
            Err(true) => return CallSource::CutOff,
            Err(false) => return CallSource::Diverged,
        };
        let answers = self.answers.as_ref();
        let Some(recorded) = answers.and_then(|answers| C::among(&answers.capabilities).get(number)) else {
            self.diverged(format!("asks for {}, and the recording has lost it", C::NAME));
            return CallSource::Diverged;
        };
        if !recorded.is_same(call) {
            let (now, then) = (call.description(), recorded.description());
            self.diverged(match now == then {
                true => format!("does {now} with other values than the recorded one"),
                false => format!("does {now} where the recorded one did {then}"),
            });
            return CallSource::Diverged;
        }
        recorded.outcome().cloned().map_or(CallSource::CutOff, CallSource::Recorded)
    }
}
