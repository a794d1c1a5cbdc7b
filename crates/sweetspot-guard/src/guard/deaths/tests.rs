use std::sync::atomic::{AtomicU32, AtomicU64};

use super::*;

#[test]
fn a_process_that_has_the_number_of_a_dead_one_is_another_one() {
    let own = identity::process_stat(std::process::id()).unwrap().start_ticks;
    let slot = |ready: u32, ticks: u64| Slot {
        pid: AtomicU32::new(std::process::id()),
        ready: AtomicU32::new(ready),
        start_ticks: AtomicU64::new(ticks),
        pid_namespace: AtomicU64::new(0),
        done: AtomicU32::new(0),
        waiting: AtomicU32::new(0),
        unseen: AtomicU32::new(0),
        is_late: AtomicU32::new(0),
    };
    let watched = |start_ticks| Watched { pid: std::process::id(), slot: 1, start_ticks };
    assert!(watched(own).is_in(&slot(1, own)));
    assert!(!watched(own - 1).is_in(&slot(1, own)), "it has the slot of one that has ended");
    // What a slot had before is not its own.
    assert!(!watched(own - 1).is_in(&slot(0, own - 1)), "it has just claimed that");
    assert!(watched(own).is_in(&slot(0, 0)));
    assert!(!Watched { pid: 0, ..watched(own) }.is_in(&slot(1, own)));
}
