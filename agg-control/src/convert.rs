//! Between the messages of the `.proto` file and the types of `messages` and `plane`.

mod host;
mod job;
mod membership;
mod registration;
mod resume;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use thiserror::Error;

/// A message of the other side that makes no sense.
#[derive(Debug, Error)]
#[error("{0}")]
#[allow(unreachable_pub)] // the generated messages are `pub`, so the error of their conversions has to be
pub struct Unreadable(pub(crate) String);

impl From<Infallible> for Unreadable {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// A field that the sender must set.
pub(crate) fn required<T>(field: Option<T>, name: &str) -> Result<T, Unreadable> {
    field.ok_or_else(|| Unreadable(format!("{name} is missing")))
}

fn narrow(value: u32, name: &str) -> Result<u16, Unreadable> {
    u16::try_from(value).map_err(|_| Unreadable(format!("{name} = {value} is above {}", u16::MAX)))
}

fn byte(value: u32, name: &str) -> Result<u8, Unreadable> {
    u8::try_from(value).map_err(|_| Unreadable(format!("{name} = {value} is above {}", u8::MAX)))
}

fn address(text: &str) -> Result<SocketAddr, Unreadable> {
    // The text is echoed, so it is bounded.
    text.parse().map_err(|_| {
        Unreadable(format!(
            "{:?} is not ip:port",
            text.chars().take(64).collect::<String>()
        ))
    })
}

pub(crate) fn millis(duration: Duration) -> u32 {
    u32::try_from(duration.as_millis()).unwrap_or(u32::MAX)
}

fn long_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// In a request, 0 stands for "the aggregator chooses".
fn unless_zero(value: u32) -> Option<u32> {
    (value != 0).then_some(value)
}
