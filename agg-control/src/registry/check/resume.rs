//! Whether a job can go on here as its member knows it.

use crate::messages::{Policy, Registration};
use crate::negotiate::{LARGEST_WINDOW, SMALLEST_WINDOW};
use crate::plane::Capabilities;
use crate::refusal::Refusal;
use crate::sizing::{GENERATIONS, MOST_GENERATIONS, datagram_bytes};

pub(super) fn check_resume(request: &Registration, host: &Capabilities) -> Result<(), Refusal> {
    let Some(resume) = &request.resume else {
        return Ok(());
    };
    if request.policy != Policy::All {
        let world = request.world.clone();
        return Err(Refusal::QuorumResumed { world });
    }
    let power_within = |value: u16, least, most| value.is_power_of_two() && (least..=most).contains(&value);
    let streams = usize::from(resume.streams);
    let what = if resume.key == 0 {
        "key 0 is no job's".into()
    } else if resume.epoch == u32::MAX {
        format!("epoch {} has no successor", resume.epoch)
    } else if !host.lanes.contains(&resume.lanes) {
        format!("this aggregator has no chunks of {} lanes", resume.lanes)
    } else if datagram_bytes(resume.lanes) > request.max_datagram {
        let (lanes, most) = (resume.lanes, request.max_datagram);
        format!("{lanes} lanes do not fit the path's {most} bytes a datagram")
    } else if !power_within(resume.window, SMALLEST_WINDOW, LARGEST_WINDOW) {
        format!("a window of {} chunks is not possible", resume.window)
    } else if !power_within(resume.generations, GENERATIONS, MOST_GENERATIONS) {
        format!("{} generations are not possible", resume.generations)
    } else if streams != request.endpoints.len() || streams != resume.next_chunks.len() {
        let (addresses, chunks) = (request.endpoints.len(), resume.next_chunks.len());
        format!("it has {streams} streams, {addresses} data addresses and {chunks} chunk numbers")
    } else {
        return Ok(());
    };
    let (world, rank) = (request.world.clone(), request.rank());
    Err(Refusal::ResumeImpossible { world, rank, what })
}
