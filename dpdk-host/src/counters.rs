//! What happens to frames, beside what the core counts of the packets in them.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Something that happens to a frame.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum FrameCounter { $($(#[$doc])* $name,)* }

        impl FrameCounter {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The counter's name, as status pages and metrics show it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

counters! {
    /// Frames received.
    Received = "frames_received",
    /// Frames given to the port.
    Sent = "frames_sent",
    /// Requests for the port's Ethernet address answered, by ARP or neighbour discovery.
    ArpAnswered = "frames_arp_answered",
    /// Pings answered.
    EchoAnswered = "frames_echo_answered",
    /// Frames given to the shard whose they are.
    HandedOver = "frames_handed_over",
    /// Frames dropped: the shard whose they are is too far behind.
    HandOffFull = "frames_dropped_hand_off_full",
    /// Frames dropped: neither for this shard nor of a kind that is answered.
    Foreign = "frames_dropped_foreign",
    /// Frames dropped: of another VLAN, or of one where there should be none, or of none.
    OtherVlan = "frames_dropped_vlan",
    /// Frames that came spread over several mbufs, since one is too small, and were copied into one.
    Gathered = "frames_gathered",
    /// Frames dropped: longer than any of a job.
    TooLong = "frames_dropped_too_long",
    /// Frames dropped: the port says that a checksum is wrong.
    BadChecksum = "frames_dropped_bad_checksum",
    /// Frames dropped: no mbuf was free for the answer. Nothing was done with them.
    NoMbuf = "frames_dropped_no_mbuf",
    /// Frames not sent: no mbuf was free for them.
    NotCopied = "frames_not_sent_no_mbuf",
    /// Frames not sent: the Ethernet address of the receiver is not known yet.
    NoNeighbour = "frames_not_sent_no_neighbour",
    /// Frames not sent: the port did not take them in time.
    RingFull = "frames_not_sent_ring_full",
}

/// What has happened to frames since the shard started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrameCounters([u64; FrameCounter::ALL.len()]);

impl FrameCounters {
    /// Adds so many.
    pub fn add(&mut self, counter: FrameCounter, count: usize) {
        self.0[counter as usize] += count as u64;
    }

    /// One counter's value.
    pub fn get(&self, counter: FrameCounter) -> u64 {
        self.0[counter as usize]
    }

    /// Every counter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (FrameCounter, u64)> + '_ {
        FrameCounter::ALL
            .iter()
            .map(|counter| (*counter, self.get(*counter)))
    }
}
