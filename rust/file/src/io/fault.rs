//! Places where a test ends the process, to see that every prefix of a write leaves a whole table.
//!
//! With the feature `fault-points`, which nothing but tests turns on, the environment variable `GLAIVE_KILL_AT` names
//! the number of the step, from 1, at which the process aborts. Every change of the file system is a step.

#[cfg(not(feature = "fault-points"))]
pub(super) fn step() {}

#[cfg(feature = "fault-points")]
pub(super) fn step() {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    static KILL_AT: LazyLock<Option<u64>> =
        LazyLock::new(|| std::env::var("GLAIVE_KILL_AT").ok()?.parse().ok());
    static STEP: AtomicU64 = AtomicU64::new(0);
    if let Some(last) = *KILL_AT
        && STEP.fetch_add(1, Ordering::SeqCst) + 1 == last
    {
        // No destructor runs, as with a kill.
        std::process::abort();
    }
}
