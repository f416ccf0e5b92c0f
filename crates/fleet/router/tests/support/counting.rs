//! An allocator that counts what a part of a thread's work allocates.

#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    // Constants without a destructor: reading them allocates nothing.
    static IS_COUNTING: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with counters.
pub(crate) struct CountingAllocator;

// SAFETY: each call is passed on as it is to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller keeps the contract of this function, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory came from the same allocator.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as above; the memory came from the same allocator.
        unsafe { System.realloc(memory, layout, size) }
    }
}

fn note() {
    // A thread that is about to end has no counters any more.
    let _ = IS_COUNTING.try_with(|is_counting| {
        if is_counting.get() {
            COUNT.with(|count| count.set(count.get() + 1));
        }
    });
}

/// Counts what `work` allocates on this thread.
pub(crate) fn counted<R>(work: impl FnOnce() -> R) -> R {
    IS_COUNTING.set(true);
    let result = work();
    IS_COUNTING.set(false);
    result
}

/// Allocations that were counted on this thread since the last call.
pub(crate) fn take_count() -> usize {
    COUNT.replace(0)
}
