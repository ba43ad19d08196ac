//! The control service's registry under any requests at any times, and what must hold after each.

mod answers;
mod call;
mod invariants;
mod plane;
mod requests;
mod session;

pub use call::{Again, Call, Input, Seat, Sender, Step, Way};
pub use session::Session;
