//! All endpoints, by their order and by their names.
//!
//! Place in the flow: made once everything is loaded; protocols find in it whom a request is for. In: the
//! endpoints in the order of the configuration. Out: one of them by its name, at a cost that does not grow
//! with their number.
//! Invariant: no two have the same name; the configuration has seen to it.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::rollout::deployment::Deployment;

/// All endpoints, in the order of the configuration.
#[derive(Clone, Default)]
pub struct Endpoints {
    list: Vec<Arc<Deployment>>,
    by_name: HashMap<String, usize>,
}

impl Endpoints {
    /// The one with this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Deployment>> {
        self.list.get(*self.by_name.get(name)?)
    }
}

impl From<Vec<Arc<Deployment>>> for Endpoints {
    fn from(list: Vec<Arc<Deployment>>) -> Endpoints {
        let place = |(place, endpoint): (usize, &Arc<Deployment>)| (endpoint.config.name.clone(), place);
        let by_name = list.iter().enumerate().map(place).collect();
        Endpoints { list, by_name }
    }
}

impl Deref for Endpoints {
    type Target = [Arc<Deployment>];

    fn deref(&self) -> &[Arc<Deployment>] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Endpoints {
    type Item = &'a Arc<Deployment>;
    type IntoIter = std::slice::Iter<'a, Arc<Deployment>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}
