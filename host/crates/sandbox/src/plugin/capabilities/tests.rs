//! The list is sound: an interface belongs to one capability, whose grant is all that it needs.

use std::collections::HashSet;

use super::*;

#[test]
fn each_interface_belongs_to_one_capability() {
    let all: Vec<&str> = interfaces().collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len(), "{all:?}");
    // What belongs to requests of either direction says nothing of one.
    for interface in all.iter().filter(|interface| **interface != "wasi:http/types") {
        let version = if interface.starts_with("wasi:http/") { "0.2.0" } else { "0.1.0" };
        let used = Set::used_by(&[format!("{interface}@{version}")]);
        assert_eq!(used.rows().count(), 1, "{interface}");
        assert!(used.has(interface), "{interface}");
        let others = all.iter().filter(|other| !used.has(other)).count();
        assert!(others > 0 && others < all.len(), "{interface}");
    }
    assert_eq!(Set::used_by(&["wasi:clocks/wall-clock@0.2.0".to_owned()]).rows().count(), 0);
}

#[test]
fn the_hint_is_that_of_the_one_grant_that_is_missing() {
    let [kv, jobs, blobs] = ["modelhost:handler/kv", "modelhost:handler/jobs", "wasi:blobstore/types"];
    for (refused, expected) in [
        (&[kv, "wasi:keyvalue/store"][..], Some(Kv::HINT)),
        (&[jobs], Some(Jobs::HINT)),
        (&[blobs], Some(Blobs::HINT)),
        (&["wasi:http/outgoing-handler", "wasi:http/types"], Some(Outbound::HINT)),
        (&[kv, jobs], None),
        (&[kv, "wasi:sockets/tcp"], None),
        (&["wasi:sockets/tcp"], None),
    ] {
        assert_eq!(hint(refused), expected, "{refused:?}");
    }
}
