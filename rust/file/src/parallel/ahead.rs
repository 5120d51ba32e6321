//! A pipeline: threads work on the next tasks while the caller is busy with the results of former ones.
//!
//! Results come in the order of the tasks. At most `depth` of them are in work or wait to be taken, beside the one that the
//! caller took last, which bounds the memory. The caller helps while it waits, so without threads (one core, a limit of threads, a single task) the same code
//! runs the tasks one by one.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::{Error, ErrorKind, Result};

type Work<T, R> = dyn Fn(T) -> Result<R> + Send + Sync;

/// Results of tasks, in order, worked out ahead of the caller. After an error there are no more.
pub struct Ahead<T, R> {
    shared: Arc<Shared<T, R>>,
    /// Threads to start at the first use.
    wanted: usize,
    threads: Vec<JoinHandle<()>>,
    /// Threads do not survive a fork: a child that inherits a running pipeline would wait for ever.
    process: u32,
}

struct Shared<T, R> {
    work: Box<Work<T, R>>,
    depth: usize,
    state: Mutex<State<T, R>>,
    /// A result came, or room for another task.
    changed: Condvar,
}

struct State<T, R> {
    /// `None` when no task is left.
    tasks: Option<Box<dyn Iterator<Item = Result<T>> + Send>>,
    /// Results from the next to take on; `None` while in work.
    results: VecDeque<Option<Result<R>>>,
    /// Number of the first of `results`.
    taken: u64,
}

impl<T: Send + 'static, R: Send + 'static> Ahead<T, R> {
    /// Works on `tasks` with `threads` threads beside the caller, at most `depth` tasks ahead. An error in place of a task
    /// is a result. Tasks are drawn one at a time, so that making one may open files.
    pub fn new(
        tasks: impl Iterator<Item = Result<T>> + Send + 'static,
        threads: usize,
        depth: usize,
        work: impl Fn(T) -> Result<R> + Send + Sync + 'static,
    ) -> Self {
        let shared = Arc::new(Shared {
            work: Box::new(work),
            depth: depth.max(1),
            state: Mutex::new(State {
                tasks: Some(Box::new(tasks)),
                results: VecDeque::new(),
                taken: 0,
            }),
            changed: Condvar::new(),
        });
        Self {
            shared,
            wanted: threads.min(depth),
            threads: Vec::new(),
            process: std::process::id(),
        }
    }

    /// Starts the threads; a pipeline that nobody has used may cross a fork.
    fn start(&mut self) {
        let spawn = |_| {
            let shared = self.shared.clone();
            // Without a thread the caller does the work.
            thread::Builder::new()
                .name("glaive-read".into())
                .spawn(move || shared.run())
                .ok()
        };
        self.threads = (0..self.wanted).map_while(spawn).collect();
        self.wanted = 0;
        self.process = std::process::id();
    }

    fn take_next(&mut self) -> Option<Result<R>> {
        if self.wanted > 0 {
            self.start();
        }
        if !self.threads.is_empty() && self.process != std::process::id() {
            self.threads.drain(..).for_each(std::mem::forget);
            return Some(Err(Error::invalid_input(
                "this scan was begun before the process forked: begin a new one in the child",
            )));
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(Some(_)) = state.results.front() {
                let result = state.results.pop_front().flatten();
                state.taken += 1;
                if matches!(result, Some(Err(_))) {
                    state.tasks = None;
                    state.results.clear();
                }
                self.shared.changed.notify_all();
                return result;
            }
            state = match state.begin(self.shared.depth) {
                Some((number, task)) => {
                    drop(state);
                    self.shared.finish(number, task)
                }
                None if state.results.is_empty() => return None,
                None => self.shared.wait(state),
            };
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Iterator for Ahead<T, R> {
    type Item = Result<R>;

    fn next(&mut self) -> Option<Self::Item> {
        self.take_next()
    }
}

impl<T, R> Drop for Ahead<T, R> {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            self.threads.drain(..).for_each(std::mem::forget);
            return;
        }
        self.shared.lock().tasks = None;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was turned into a result already.
            let _ = thread.join();
        }
    }
}

impl<T, R> State<T, R> {
    /// Draws the next task, if there is room for its result.
    fn begin(&mut self, depth: usize) -> Option<(u64, Result<T>)> {
        if self.results.len() >= depth {
            return None;
        }
        let Some(task) = self.tasks.as_mut()?.next() else {
            self.tasks = None;
            return None;
        };
        self.results.push_back(None);
        Some((self.taken + self.results.len() as u64 - 1, task))
    }

    fn put(&mut self, number: u64, result: Result<R>) {
        let place = number
            .checked_sub(self.taken)
            .and_then(|at| usize::try_from(at).ok());
        // After an error nobody asks for the results behind it.
        if let Some(slot) = place.and_then(|at| self.results.get_mut(at)) {
            *slot = Some(result);
        }
    }
}

impl<T, R> Shared<T, R> {
    /// What a thread does.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            state = match state.begin(self.depth) {
                Some((number, task)) => {
                    drop(state);
                    self.finish(number, task)
                }
                None if state.tasks.is_none() => return,
                None => self.wait(state),
            };
        }
    }

    /// Works on a task and keeps its result.
    fn finish(&self, number: u64, task: Result<T>) -> MutexGuard<'_, State<T, R>> {
        let mut unfinished = Unfinished {
            shared: self,
            number,
            result: None,
        };
        unfinished.result = Some(task.and_then(|task| (self.work)(task)));
        drop(unfinished);
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State<T, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State<T, R>>) -> MutexGuard<'a, State<T, R>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task in work: dropped without a result, it leaves an error, so that nobody waits for a thread that is gone.
struct Unfinished<'a, T, R> {
    shared: &'a Shared<T, R>,
    number: u64,
    result: Option<Result<R>>,
}

impl<T, R> Drop for Unfinished<'_, T, R> {
    fn drop(&mut self) {
        let stopped = || Err(Error::new(ErrorKind::Io, "a worker thread stopped"));
        let result = self.result.take().unwrap_or_else(stopped);
        self.shared.lock().put(self.number, result);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::time::Duration;

    use super::*;

    fn numbers(n: u64) -> impl Iterator<Item = Result<u64>> + Send + 'static {
        (0..n).map(Ok)
    }

    #[test]
    fn results_keep_their_order() {
        for threads in [0, 1, 2, 7] {
            for depth in [0, 1, 2, 30] {
                let squares = Ahead::new(numbers(50), threads, depth, |i| {
                    thread::sleep(Duration::from_micros(i * 37 % 200));
                    Ok(i * i)
                });
                let found: Vec<_> = squares.map(Result::unwrap).collect();
                assert_eq!(found, (0..50).map(|i| i * i).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_more_than_depth_tasks_run_ahead() {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let mut ahead = Ahead::new(numbers(100), 2, 3, move |i| {
            count.fetch_add(1, SeqCst);
            Ok(i)
        });
        for taken in 1..=100 {
            ahead.next().unwrap().unwrap();
            thread::sleep(Duration::from_micros(200));
            assert!(begun.load(SeqCst) <= taken + 3);
        }
        assert!(ahead.next().is_none());
    }

    #[test]
    fn an_error_ends_the_results() {
        for threads in [0, 2] {
            let mut ahead = Ahead::new(numbers(50), threads, 4, |i| match i {
                20 => Err(Error::corrupt("x")),
                i => Ok(i),
            });
            assert_eq!(ahead.by_ref().take(20).map(Result::unwrap).last(), Some(19));
            assert!(ahead.next().unwrap().is_err());
            assert!(ahead.next().is_none());
        }
        let tasks = [Ok(1), Err(Error::corrupt("no task")), Ok(2)];
        let found: Vec<_> = Ahead::new(tasks.into_iter(), 1, 4, Ok).collect();
        assert!(found.len() == 2 && found[1].is_err());
    }

    #[test]
    fn a_panic_in_a_thread_is_an_error() {
        let caller = thread::current().id();
        let panicking = AtomicUsize::new(0);
        let mut ahead = Ahead::new(numbers(8), 1, 8, move |i| {
            if thread::current().id() != caller {
                panicking.store(1, SeqCst);
                panic!("a test of panics");
            }
            // The caller's work lasts until the thread has some.
            while panicking.load(SeqCst) == 0 {
                thread::yield_now();
            }
            Ok(i)
        });
        assert!(ahead.any(|result| result.is_err()));
    }

    #[test]
    fn dropped_in_the_middle_it_stops() {
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let mut ahead = Ahead::new(numbers(1_000_000), 2, 4, move |i| {
            count.fetch_add(1, SeqCst);
            Ok(i)
        });
        ahead.next().unwrap().unwrap();
        drop(ahead);
        assert!(begun.load(SeqCst) <= 6);
    }
}
