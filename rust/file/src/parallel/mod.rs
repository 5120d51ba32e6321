//! Work on all cores, without a thread pool: threads live for one call or one scan, and start at its first use.

mod ahead;

use std::sync::Mutex;
use std::thread;

use crate::{Error, Result};

pub use ahead::Ahead;

/// Cores this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// `f` of every item, in order, on up to `threads` threads; the first error wins.
pub fn map<T: Send, R: Send>(
    items: Vec<T>,
    threads: usize,
    f: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = threads.min(items.len());
    if threads <= 1 {
        return items.into_iter().map(f).collect();
    }
    let mut results: Vec<Option<Result<R>>> = items.iter().map(|_| None).collect();
    let queue = Mutex::new(items.into_iter().zip(results.iter_mut()));
    let work = || {
        while let Some((item, slot)) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            *slot = Some(f(item));
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    drop(queue);
    results
        .into_iter()
        .map(|r| r.unwrap_or_else(|| Err(Error::new(crate::ErrorKind::Io, "a worker thread stopped"))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        for threads in [0, 1, 2, 7, 100] {
            let squares = map((0..50).collect(), threads, |i| Ok(i * i)).unwrap();
            assert_eq!(squares, (0..50).map(|i| i * i).collect::<Vec<_>>());
        }
    }

    #[test]
    fn an_error_is_returned() {
        let result = map((0..50).collect(), 3, |i| {
            if i == 20 { Err(Error::corrupt("x")) } else { Ok(i) }
        });
        assert!(result.is_err());
    }
}
