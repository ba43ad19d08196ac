//! A trace, and the two files it is kept in.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use crate::vectors::lines::{Event, FORMAT, Setup};
use crate::vectors::{frame, pcap};

/// Where the aggregator of every trace receives.
pub const AGGREGATOR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 4601);

/// Packets in order, and what must come of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// The name of its files.
    pub name: String,
    /// The aggregator before the first packet.
    pub setup: Setup,
    /// What happens.
    pub events: Vec<Event>,
    /// The packets; [`crate::vectors::Expectation::packet`] counts them from 1.
    pub datagrams: Vec<Datagram>,
}

/// A packet and where it comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// Address and port.
    pub source: SocketAddrV4,
    /// The UDP payload.
    pub payload: Vec<u8>,
}

impl Trace {
    /// Its files, by their names, as bytes.
    pub fn files(&self) -> [(String, Vec<u8>); 2] {
        let events = self.events.iter().map(serde_json::to_string);
        let lines = std::iter::once(serde_json::to_string(&self.setup)).chain(events);
        let text: String = lines
            .map(|line| line.expect("strings and numbers only") + "\n")
            .collect();

        let times = self.events.iter().filter_map(|event| match event {
            Event::Packet(expected) => Some(expected.now),
            _ => None,
        });
        let frame = |(at, datagram): (usize, &Datagram)| {
            frame::write(datagram.source, AGGREGATOR, at as u16 + 1, &datagram.payload)
        };
        let frames: Vec<_> = self.datagrams.iter().enumerate().map(frame).collect();
        let capture = pcap::write(times.zip(frames.iter().map(Vec::as_slice)));
        [
            (format!("{}.jsonl", self.name), text.into_bytes()),
            (format!("{}.pcap", self.name), capture),
        ]
    }

    /// Reads the trace `name` in `directory`.
    ///
    /// # Errors
    /// A file is missing or broken, or the two do not belong together.
    pub fn read(directory: &Path, name: &str) -> Result<Self> {
        let broken = |what: String| Error::new(ErrorKind::InvalidData, format!("{name}: {what}"));
        let text = fs::read_to_string(directory.join(format!("{name}.jsonl")))?;
        let mut lines = text.lines();
        let parse = |error: serde_json::Error| broken(error.to_string());
        let setup: Setup = serde_json::from_str(lines.next().unwrap_or_default()).map_err(parse)?;
        if setup.format != FORMAT {
            return Err(broken(format!("format {} is unknown", setup.format)));
        }
        let events: Vec<Event> = lines
            .map(|line| serde_json::from_str(line).map_err(parse))
            .collect::<Result<_>>()?;

        let capture = fs::read(directory.join(format!("{name}.pcap")))?;
        let mut datagrams = Vec::new();
        for frame in pcap::read(&capture)? {
            let read = frame::read(frame);
            let (source, payload) = read.ok_or_else(|| broken(format!("frame {}", datagrams.len() + 1)))?;
            datagrams.push(Datagram {
                source,
                payload: payload.to_vec(),
            });
        }
        let numbers = events.iter().filter_map(|event| match event {
            Event::Packet(expected) => Some(expected.packet),
            _ => None,
        });
        if setup.packets != datagrams.len() || !numbers.eq(1..=datagrams.len()) {
            return Err(broken(
                "packets are not numbered as the pcap file has them".into(),
            ));
        }
        Ok(Self {
            name: name.to_owned(),
            setup,
            events,
            datagrams,
        })
    }

    /// Reads every trace of a directory, in the order of their names.
    ///
    /// # Errors
    /// The directory or a trace cannot be read, or there is none.
    pub fn read_all(directory: &Path) -> Result<Vec<Self>> {
        let entries: Vec<PathBuf> = fs::read_dir(directory)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        let is_trace = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "jsonl");
        let stems = entries
            .iter()
            .filter(is_trace)
            .filter_map(|path| path.file_stem()?.to_str());
        let mut names: Vec<&str> = stems.collect();
        names.sort_unstable();
        if names.is_empty() {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("no trace in {}", directory.display()),
            ));
        }
        names
            .into_iter()
            .map(|name| Self::read(directory, name))
            .collect()
    }
}
