//! What must have come of a run under a quorum: results differ in whom they hold, and nothing else.

use super::Cluster;
use crate::ModelSum;
use crate::harness::Values;
use crate::packet::ModelPacket;

impl Cluster {
    /// R-QUORUM-5: a worker is removed, and nothing of it comes any more.
    pub(super) fn exclude(&mut self, rank: usize) {
        if let Some((home, member)) = self.homes.remove(&rank) {
            let node = &mut self.nodes[home];
            node.lockstep.exclude(node.job.key, member);
        }
    }

    /// Every worker has the same of every operation, also whoever was late: for each block the integers of just those
    /// members that its result names, at least as many as the quorum, each once.
    pub fn check_quorum(&self) {
        let (quorum, _) = self.site.quorum.expect("a job under a quorum");
        let enough = self.ranks().len().min(usize::from(quorum.members));
        let mut first_chunk = self.site.first_chunk;
        for operation in 0..self.longest() {
            let bits = match self.input(operation).kind.is_scaled() {
                true => self.sum_of_some(operation, first_chunk, enough),
                false => self.sum_of_all(operation),
            };
            for rank in self.ranks() {
                let end = self.parts[rank].ends[operation].bits();
                assert_eq!(end.as_ref(), Some(&bits), "operation {operation}, worker {rank}");
            }
            let (headers, blocks) = self.chunks_of(operation);
            first_chunk += headers + blocks;
        }
    }

    /// Every worker that is left has the same of every operation.
    pub fn check_same(&self) {
        for operation in 0..self.longest() {
            let mut bits = self
                .ranks()
                .into_iter()
                .map(|rank| self.parts[rank].ends[operation].bits());
            let first = bits.next().expect("somebody is left");
            assert!(bits.all(|other| other == first), "operation {operation}");
        }
    }

    fn longest(&self) -> usize {
        self.parts.iter().map(|part| part.begun.len()).max().unwrap_or(0)
    }

    /// What one of the ranks that are left began to reduce.
    fn input(&self, operation: usize) -> &Values {
        &self.parts[self.ranks()[0]].begun[operation]
    }

    /// R-OP-2: the chunks of an operation without values in front, and all others.
    fn chunks_of(&self, operation: usize) -> (u64, u64) {
        let window = u64::from(self.site.window);
        self.input(operation).chunks(self.site.lanes, window)
    }

    fn sum_of_all(&self, operation: usize) -> Vec<u32> {
        let begun = self.parts.iter().filter_map(|part| part.begun.get(operation));
        let inputs: Vec<Values> = begun.cloned().collect();
        Values::result(&inputs, self.site.lanes).bits()
    }

    /// The result of a chunk, and who is in it.
    fn result(&self, chunk: u64) -> (&ModelPacket, Vec<usize>) {
        let window = u64::from(self.site.window);
        let place = ((chunk % window) as u16, (chunk / window) as u32);
        let result = self.results.get(&place).expect("every chunk has a result");
        (
            result,
            result.set.iter().map(|member| usize::from(*member)).collect(),
        )
    }

    /// A block of what a rank began to reduce.
    fn block(&self, operation: usize, rank: usize, index: u64) -> Vec<f32> {
        self.parts[rank].begun[operation].block(index, self.site.lanes)
    }

    /// The bits of a scaled operation, derived from whom its results name.
    fn sum_of_some(&self, operation: usize, first_chunk: u64, enough: usize) -> Vec<u32> {
        let (headers, blocks) = self.chunks_of(operation);
        let workers = self.workers.len() as u32;
        let mut bits = Vec::new();
        for index in 0..headers + blocks {
            let (result, summed) = self.result(first_chunk + index);
            assert!(
                summed.len() >= enough,
                "R-QUORUM-1: {summed:?} are fewer than {enough}"
            );
            assert_eq!(result.workers as usize, summed.len());
            if index < blocks {
                let needs = |rank: &usize| ModelSum::exponent(&self.block(operation, *rank, index));
                let next = summed.iter().filter_map(needs).max();
                assert_eq!(result.next, next, "R-NUM-3: operation {operation}, chunk {index}");
            }
            let Some(block) = index.checked_sub(headers) else {
                continue;
            };
            assert_eq!(result.scale, self.result(first_chunk + block).0.next, "R-NUM-3");
            let parts = summed.iter().map(|rank| self.block(operation, *rank, block));
            let parts: Vec<Vec<f32>> = parts.collect();
            let finite = parts.iter().all(|part| part.iter().all(|x| x.is_finite()));
            assert_eq!(result.nonfinite, !finite, "R-NUM-6");
            let input = self.input(operation);
            let scale = input.scale(result.scale, workers);
            let lanes = result.values(self.site.lanes).expect("a chunk");
            let sums = ModelSum::unpack(&lanes, input.kind.bits());
            let mut floats = Vec::new();
            for (at, sum) in sums.iter().enumerate().take(parts[0].len()) {
                let quantized = parts.iter().map(|part| scale.quantize(part[at]));
                assert_eq!(quantized.sum::<i32>(), *sum, "each of {summed:?} just once");
                floats.push(match finite {
                    true => ModelSum::result(input.kind, *sum, scale, result.workers),
                    false => f32::NAN,
                });
            }
            bits.extend(Values::floats_of(input.kind, floats).bits());
        }
        bits
    }

    /// Error feedback loses nothing and doubles nothing: over all operations, which have the same elements, what the results
    /// hold and what is left in the end are what was given, but for the rounding of f32 when the rest is added to values.
    pub fn check_conservation(&self) {
        let workers = self.workers.len() as u32;
        let elements = self.input(0).operation().elements as usize;
        let mut balance = vec![0.0_f64; elements];
        let mut magnitude = vec![0.0_f64; elements];
        for part in &self.parts {
            for (given, begun) in part.given.iter().zip(&part.begun) {
                let (given, begun) = (given.floats().expect("f32"), begun.floats().expect("f32"));
                for at in 0..elements {
                    balance[at] += f64::from(given[at]);
                    magnitude[at] += f64::from(begun[at].abs());
                }
            }
            for (balance, left) in balance.iter_mut().zip(&part.residual) {
                *balance -= f64::from(*left);
            }
        }
        let mut first_chunk = self.site.first_chunk;
        for operation in 0..self.longest() {
            let (headers, blocks) = self.chunks_of(operation);
            for (at, balance) in balance.iter_mut().enumerate() {
                let input = self.input(operation);
                let elements = input.kind.elements_of(self.site.lanes);
                let (result, _) = self.result(first_chunk + headers + (at / elements) as u64);
                let lanes = result.values(self.site.lanes).expect("a chunk");
                let sum = ModelSum::unpack(&lanes, input.kind.bits())[at % elements];
                *balance -= input.scale(result.scale, workers).exact(sum);
            }
            first_chunk += headers + blocks;
        }
        for (at, (balance, magnitude)) in balance.iter().zip(magnitude).enumerate() {
            let rounding = magnitude * 2_f64.powi(-22);
            assert!(
                balance.abs() <= rounding,
                "element {at}: {balance:e} of {magnitude:e} lost or doubled"
            );
        }
    }
}
