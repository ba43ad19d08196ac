//! What one rank measured.

use std::time::Duration;

/// What one rank measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RankFigures {
    /// Time of each iteration.
    pub times: Vec<Duration>,
    /// Processor time in them.
    pub cpu: Duration,
    /// Packets sent in them.
    pub packets: u64,
    /// Chunks sent again in them.
    pub resends: u64,
    /// Results in them that the network has marked.
    pub marked: u64,
    /// How often the rank has put fewer chunks in flight in them.
    pub decreases: u64,
    /// Chunks that may be in flight at their end.
    pub congestion_window: u64,
    /// Time in them, and of that the time in which nothing could be sent although there were chunks left.
    pub busy: Duration,
    pub stalled: Duration,
    /// Chunks summed, and those of them that this rank was late for.
    pub chunks: u64,
    pub late_chunks: u64,
    /// Iterations of which no chunk holds this rank's values.
    pub late_operations: u64,
    /// Gradients made; in the other iterations it had none, since it was behind.
    pub gradients: u64,
    /// Fingerprint of all results.
    pub digest: u64,
}

/// Numbers before the times, as they are gathered. The first one says that the rank is there.
const FIXED: usize = 14;

impl RankFigures {
    /// As plain numbers, to be gathered.
    pub fn to_numbers(&self) -> Vec<u64> {
        let nanos = |time: &Duration| time.as_nanos() as u64;
        let fixed: [u64; FIXED] = [
            1,
            nanos(&self.cpu),
            self.packets,
            self.resends,
            self.marked,
            self.decreases,
            self.congestion_window,
            nanos(&self.busy),
            nanos(&self.stalled),
            self.chunks,
            self.late_chunks,
            self.late_operations,
            self.gradients,
            self.digest,
        ];
        fixed.into_iter().chain(self.times.iter().map(nanos)).collect()
    }

    /// Reads what [`Self::to_numbers`] made; `None` for the zeros of a rank that is not there any more.
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        let (fixed, times) = numbers.split_first_chunk::<FIXED>()?;
        let [
            present,
            cpu,
            packets,
            resends,
            marked,
            decreases,
            congestion_window,
            busy,
            stalled,
            chunks,
            late_chunks,
            late_operations,
            gradients,
            digest,
        ] = *fixed;
        (present == 1).then(|| Self {
            times: times.iter().copied().map(Duration::from_nanos).collect(),
            cpu: Duration::from_nanos(cpu),
            packets,
            resends,
            marked,
            decreases,
            congestion_window,
            busy: Duration::from_nanos(busy),
            stalled: Duration::from_nanos(stalled),
            chunks,
            late_chunks,
            late_operations,
            gradients,
            digest,
        })
    }

    /// Adds the bits of a result to the fingerprint.
    pub fn add_digest(&mut self, words: impl Iterator<Item = u32>) {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        self.digest = words.fold(self.digest, |digest, word| {
            (digest.rotate_left(5) ^ u64::from(word)).wrapping_mul(FACTOR)
        });
    }

    /// Whether it was in time for most of what it was asked for.
    pub fn is_punctual(&self) -> bool {
        2 * self.late_chunks <= self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_being_gathered() {
        let mut figures = RankFigures {
            times: vec![Duration::from_micros(3), Duration::from_micros(5)],
            cpu: Duration::from_micros(1),
            packets: 2,
            resends: 3,
            marked: 11,
            decreases: 12,
            congestion_window: 13,
            busy: Duration::from_micros(4),
            stalled: Duration::from_micros(6),
            chunks: 7,
            late_chunks: 3,
            late_operations: 9,
            gradients: 10,
            digest: 0,
        };
        figures.add_digest([1, 2].into_iter());
        let numbers = figures.to_numbers();
        assert!(figures.is_punctual());
        assert_eq!(RankFigures::from_numbers(&numbers), Some(figures));
        assert_eq!(RankFigures::from_numbers(&vec![0; numbers.len()]), None);
    }

    #[test]
    fn another_order_is_another_digest() {
        let digest = |words: [u32; 2]| {
            let mut figures = RankFigures::default();
            figures.add_digest(words.into_iter());
            figures.digest
        };
        assert_ne!(digest([1, 2]), digest([2, 1]));
        assert_ne!(digest([0, 1]), digest([1, 0]));
    }
}
