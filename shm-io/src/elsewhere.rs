//! Where there is no such thing: nothing can be opened, so that nothing of this can exist.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::{Broken, PacketBuffer};

/// Linux only.
#[derive(Debug)]
pub struct Door(Infallible);

impl Door {
    /// Linux only.
    pub fn open(_: &str) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Linux only.
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// Linux only.
    pub fn accept(&self, _: Duration) -> io::Result<Option<Call>> {
        match self.0 {}
    }

    /// Linux only.
    pub fn tell(&self, _: Duration, _: u64) -> io::Result<bool> {
        match self.0 {}
    }
}

/// Linux only.
#[derive(Debug)]
pub struct Call(Infallible);

impl Call {
    /// Linux only.
    pub fn number(&self) -> u64 {
        match self.0 {}
    }

    /// Linux only.
    pub fn bytes(&self) -> usize {
        match self.0 {}
    }

    /// Linux only.
    pub fn answer<T>(self, _: u64, _: impl FnOnce(Line) -> io::Result<T>) -> io::Result<T> {
        match self.0 {}
    }
}

/// Linux only.
pub fn connect(_: &str, _: u64, _: usize, _: Duration) -> io::Result<Line> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Linux only.
pub fn ask(_: &str, _: Duration) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Linux only.
pub fn holder(_: &str, _: Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Linux only.
pub fn is_taken(_: &str) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Linux only.
#[derive(Debug)]
pub struct Line(Infallible);

impl Line {
    /// Linux only.
    pub fn split(self) -> (Sender, Receiver) {
        match self.0 {}
    }

    /// Linux only.
    pub fn name(&self) -> u64 {
        match self.0 {}
    }

    /// Linux only.
    pub fn bytes(&self) -> usize {
        match self.0 {}
    }

    /// Linux only.
    pub fn has_packets(&self) -> bool {
        match self.0 {}
    }

    /// Linux only.
    pub fn has_hung_up(&self) -> bool {
        match self.0 {}
    }

    /// Linux only.
    pub fn doze(&self, _: bool) -> bool {
        match self.0 {}
    }

    /// Linux only.
    pub fn rise(&self, _: bool) {
        match self.0 {}
    }

    /// Linux only.
    pub fn answer(&self) {
        match self.0 {}
    }
}

/// Linux only.
pub fn wait_any(_: &[&Line], _: bool, _: Duration) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Linux only.
#[derive(Debug)]
pub struct Sender(Arc<Line>);

impl Sender {
    /// Linux only.
    pub fn line(&self) -> &Arc<Line> {
        &self.0
    }

    /// Linux only.
    pub fn room(&mut self, _: usize) -> Option<&mut [u8]> {
        None
    }

    /// Linux only.
    pub fn commit(&mut self, _: usize) {}

    /// Linux only.
    pub fn push(&mut self, _: &[u8]) -> bool {
        false
    }

    /// Linux only.
    pub fn publish(&mut self) {}

    /// Linux only.
    pub fn check(&self) -> Result<(), Broken> {
        Err(Broken)
    }
}

/// Linux only.
#[derive(Debug)]
pub struct Receiver(Arc<Line>);

impl Receiver {
    /// Linux only.
    pub fn line(&self) -> &Arc<Line> {
        &self.0
    }

    /// Linux only.
    pub fn oversized(&self) -> u64 {
        0
    }

    /// Linux only.
    pub fn receive<'b>(&mut self, _: &'b mut PacketBuffer) -> Result<Option<&'b [u8]>, Broken> {
        Err(Broken)
    }
}
