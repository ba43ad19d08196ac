//! Whose turn it is: operations run one at a time, in the order in which they were asked for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The next ticket to give out.
    next: u64,
    /// The ticket whose turn it is.
    serving: u64,
    /// Threads that sleep until that changes: to wake nobody costs a system call, too.
    waiting: u32,
}

/// A place in the order. Dropping it lets the next one go on.
pub(crate) struct Ticket<'a> {
    turns: &'a Turns,
    number: u64,
}

impl Ticket<'_> {
    /// Its place.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }
}

impl Turns {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next place.
    pub(crate) fn take(&self) -> u64 {
        let mut state = self.lock();
        state.next += 1;
        state.next - 1
    }

    /// Waits until the place `number` is the first.
    pub(crate) fn wait(&self, number: u64) -> Ticket<'_> {
        let mut state = self.lock();
        while state.serving != number {
            state.waiting += 1;
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        Ticket { turns: self, number }
    }

    /// Whether nobody has a place; waits for that at most `timeout`.
    pub(crate) fn wait_idle(&self, timeout: Duration) -> bool {
        let mut state = self.lock();
        let busy = |state: &mut State| state.next != state.serving;
        state.waiting += 1;
        let waited = self.changed.wait_timeout_while(state, timeout, busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state.next == state.serving
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut state = self.turns.lock();
        state.serving = self.number + 1;
        if state.waiting > 0 {
            self.turns.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_served_in_order() {
        let turns = Turns::default();
        let order = Mutex::new(Vec::new());
        let numbers = [turns.take(), turns.take(), turns.take()];
        assert!(!turns.wait_idle(Duration::ZERO));
        std::thread::scope(|scope| {
            for number in numbers.into_iter().rev() {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.wait(number);
                    order.lock().unwrap().push(number);
                });
            }
        });
        assert_eq!(*order.lock().unwrap(), numbers);
        assert!(turns.wait_idle(Duration::ZERO));
    }
}
