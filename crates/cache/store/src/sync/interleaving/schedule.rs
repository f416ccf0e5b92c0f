//! Threads that run one at a time in an order drawn from a seed: at every lock, unlock and [`pause`] the next
//! thread is drawn. The same seed gives the same schedule, and deadlocks are detected.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, LockResult, TryLockError, TryLockResult};

use stdx::prng::Prng;

/// Runs `threads` to their ends, in an order drawn with `seed`.
pub(crate) fn run(seed: u64, threads: Vec<Box<dyn FnOnce() + Send + '_>>) {
    let turns = Turns { running: 0, alive: vec![true; threads.len()], prng: Prng::new(seed), in_vain: 0 };
    let schedule = Arc::new(Schedule { turns: std::sync::Mutex::new(turns), changed: Condvar::new() });
    std::thread::scope(|scope| {
        for (number, thread) in threads.into_iter().enumerate() {
            let schedule = Arc::clone(&schedule);
            scope.spawn(move || {
                let _member = Member::join(schedule, number);
                thread();
            });
        }
    });
}

/// A point where another thread may be scheduled. Without effect outside of a schedule.
pub(crate) fn pause() {
    MEMBER.with_borrow(|member| {
        if let Some((schedule, number)) = member {
            schedule.next(*number, false);
        }
    });
}

thread_local! {
    static MEMBER: RefCell<Option<(Arc<Schedule>, usize)>> = const { RefCell::new(None) };
}

struct Schedule {
    turns: std::sync::Mutex<Turns>,
    changed: Condvar,
}

struct Turns {
    running: usize,
    alive: Vec<bool>,
    prng: Prng,
    /// Consecutive turns that ended at a lock that another thread holds.
    in_vain: u32,
}

/// More such turns than any schedule without a deadlock has.
const IN_VAIN_MAX: u32 = 100_000;

impl Schedule {
    /// Draws the next thread, and waits until this thread is drawn again.
    fn next(&self, number: usize, in_vain: bool) {
        let mut turns = self.turns.lock().unwrap();
        turns.in_vain = if in_vain { turns.in_vain + 1 } else { 0 };
        assert!(turns.in_vain < IN_VAIN_MAX, "deadlock: all threads wait for locks");
        turns.draw();
        self.changed.notify_all();
        while turns.running != number {
            turns = self.changed.wait(turns).unwrap();
        }
    }
}

impl Turns {
    fn draw(&mut self) {
        let alive: Vec<usize> = (0..self.alive.len()).filter(|number| self.alive[*number]).collect();
        if !alive.is_empty() {
            self.running = alive[self.prng.below(alive.len() as u64) as usize];
        }
    }
}

/// A thread's membership in a schedule, until dropped.
struct Member;

impl Member {
    fn join(schedule: Arc<Schedule>, number: usize) -> Member {
        let mut turns = schedule.turns.lock().unwrap();
        while turns.running != number {
            turns = schedule.changed.wait(turns).unwrap();
        }
        drop(turns);
        MEMBER.set(Some((schedule, number)));
        Member
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let Some((schedule, number)) = MEMBER.take() else { return };
        let mut turns = schedule.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        turns.alive[number] = false;
        turns.draw();
        schedule.changed.notify_all();
    }
}

/// A lock at which the schedule may switch threads.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

#[derive(Debug)]
pub(crate) struct MutexGuard<'m, T>(Option<std::sync::MutexGuard<'m, T>>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        pause();
        loop {
            match self.0.try_lock() {
                Ok(guard) => return Ok(MutexGuard(Some(guard))),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(MutexGuard(Some(poisoned.into_inner()))),
                Err(TryLockError::WouldBlock) => wait_in_vain(),
            }
        }
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        pause();
        match self.0.try_lock() {
            Ok(guard) => Ok(MutexGuard(Some(guard))),
            Err(TryLockError::Poisoned(poisoned)) => Ok(MutexGuard(Some(poisoned.into_inner()))),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
        }
    }
}

fn wait_in_vain() {
    MEMBER.with_borrow(|member| match member {
        Some((schedule, number)) => schedule.next(*number, true),
        None => std::thread::yield_now(),
    });
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("held until dropped")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("held until dropped")
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0 = None;
        if !std::thread::panicking() {
            pause();
        }
    }
}
