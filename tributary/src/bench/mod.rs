//! Measuring operations: what each rank does, and how its figures are shown.

mod element;
mod figures;
mod gather;
mod marked;
mod measure;
mod report;
mod setup;
mod submitted;
mod sums;
mod table;

pub use measure::measure;
pub use report::{Message, SizeReport, median, share, sorted};
pub use setup::{Dtype, Setup};
pub use table::{about, details, header, row, time};
