//! The control service's registry under any requests at any times, and what must hold after each.

mod call;
mod invariants;
mod plane;
mod session;

pub use call::{Call, Input, Seat, Sender, Step};
pub use session::Session;
