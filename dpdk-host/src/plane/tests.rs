use agg_control::{MemberSpec, Policy};
use agg_host::SlotMemory;

use super::*;

fn plane() -> Plane {
    plane_of(1)
}

fn plane_of(shards: usize) -> Plane {
    let memory = SlotMemory::of(1 << 20, 0);
    let local: SocketAddr = "10.0.0.1:4601".parse().unwrap();
    let network = Network {
        address: local.ip(),
        prefix: 24,
        gateway: None,
    };
    let first = Arc::new(Shard::new(memory.aggregator().unwrap(), network));
    let others = (1..shards).map(|_| Arc::new(first.beside(memory.aggregator().unwrap())));
    let others: Vec<Arc<Shard>> = others.collect();
    let port = |name: &str, mtu| About {
        name: name.to_owned(),
        driver: "net_ring".to_owned(),
        mac: [2; 6],
        mtu,
        ring: 512,
        queues: 1,
        is_steered: shards == 1,
    };
    Plane {
        shards: std::iter::once(first).chain(others).collect(),
        epoch: Epoch(3),
        local,
        framing: Framing::new(&local, None),
        ports: vec![port("net_ring1", 9000), port("net_ring0", 1500)],
        memory: memory.bytes(),
        names: Mutex::default(),
        trying: Mutex::default(),
        closing: AtomicBool::new(false),
    }
}

fn job(members: &[&str], lanes: u16) -> JobSpec {
    let member = |(rank, end): (usize, &&str)| MemberSpec {
        endpoints: vec![end.parse().unwrap()],
        workers: 1,
        ranks: vec![rank as u32],
    };
    JobSpec {
        key: 7,
        name: "world".to_owned(),
        epoch: 3,
        members: members.iter().enumerate().map(member).collect(),
        workers: members.len() as u32,
        lanes,
        window: 8,
        generations: 2,
        streams: 1,
        policy: Policy::All,
        weight: 1,
        parent: None,
    }
}

#[test]
fn chunks_fit_the_port() {
    let plane = plane();
    assert_eq!(plane.describe().lanes, [256, 352]);
    let error = plane.admit(&job(&["10.0.0.2:5", "10.0.0.3:5"], 848)).unwrap_err();
    assert!(
        error.to_string().contains("port net_ring0 carries 1472"),
        "{error}"
    );
}

#[test]
fn who_cannot_be_reached_is_named_and_nothing_is_kept() {
    let plane = plane();
    for (end, reason) in [
        (
            "10.0.1.3:5",
            "rank 1 is at 10.0.1.3:5, which is not in 10.0.0.1/24: start the aggregator with --gateway",
        ),
        (
            "[fd00::3]:5",
            "rank 1 is at [fd00::3]:5, but packets are received on 10.0.0.1:4601: register from an address of the same family",
        ),
    ] {
        let error = plane
            .admit(&job(&["10.0.0.2:5", end], 352))
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(plane.jobs().is_empty());
    assert!(plane.local_endpoints("10.0.1.1:5".parse().unwrap()).is_err());
    let uplink = plane.local_endpoints("10.0.0.9:5".parse().unwrap()).unwrap();
    assert_eq!((uplink.endpoints, uplink.max_datagram), (vec![plane.local], 1472));
}

#[test]
fn a_job_has_a_route_until_it_is_released() {
    let plane = plane();
    let free = plane.free_memory();
    plane.admit(&job(&["10.0.0.2:5", "10.0.0.3:5"], 352)).unwrap();
    assert!(plane.free_memory() < free);
    assert_eq!(plane.shards[0].lock().route(7).unwrap().members.len(), 2);
    assert_eq!(plane.lags(7).len(), 2);
    assert!(
        plane.admit(&job(&["10.0.0.2:5", "10.0.0.3:5"], 352)).is_err(),
        "the key is taken"
    );
    plane.suspend(7);
    plane.admit(&job(&["10.0.0.2:5", "10.0.0.4:5"], 352)).unwrap();
    plane.release(7);
    assert_eq!((plane.free_memory(), plane.jobs().len()), (free, 0));
    assert!(plane.shards[0].lock().route(7).is_none());
    let counters = &plane.counters()[0].values;
    assert!(
        counters
            .iter()
            .any(|(name, value)| name == "frames_received" && *value == 0)
    );
}

/// A job of two streams, on addresses of their own.
fn two_streams() -> JobSpec {
    let mut job = job(&["10.0.0.2:5", "10.0.0.3:5"], 352);
    job.streams = 2;
    for member in &mut job.members {
        let next = SocketAddr::new(member.endpoints[0].ip(), 6);
        member.endpoints.push(next);
    }
    job
}

#[test]
fn each_stream_of_a_job_is_on_a_shard_of_its_own() {
    let plane = plane_of(3);
    let about = plane.describe();
    assert_eq!((about.shards, about.base_port), (3, 4601));
    assert_eq!(about.receive_ring, 170, "the frames of all wait in one queue");
    plane.admit(&two_streams()).unwrap();
    let ports = |shard: usize| -> Option<Vec<u16>> {
        let state = plane.shards[shard].lock();
        Some(state.route(7)?.members.iter().map(SocketAddr::port).collect())
    };
    assert_eq!(
        [ports(0), ports(1), ports(2)],
        [Some(vec![5, 5]), Some(vec![6, 6]), None]
    );
    let numbers: Vec<u16> = plane.counters().iter().map(|counters| counters.shard).collect();
    assert_eq!((numbers, plane.lags(7).len()), (vec![0, 1, 2], 2));
    let uplink = plane.local_endpoints("10.0.0.9:5".parse().unwrap()).unwrap();
    let ports: Vec<u16> = uplink.endpoints.iter().map(SocketAddr::port).collect();
    assert_eq!(ports, [4601, 4602, 4603]);
    plane.release(7);
    assert!(plane.shards.iter().all(|shard| shard.lock().route(7).is_none()));
}

#[test]
fn a_job_that_does_not_fit_one_shard_is_on_none() {
    let plane = plane_of(2);
    let free = plane.free_memory();
    // Another job has the second shard's memory.
    let mut filler = job_config(&job(&["10.0.0.4:5", "10.0.0.5:5"], 352), 0).unwrap();
    (filler.key, filler.window) = (8, 256);
    plane.shards[1].lock().aggregator.admit(&filler).unwrap();
    let mut large = two_streams();
    large.window = 256;
    let error = plane.admit(&large).unwrap_err();
    assert!(matches!(error, AdmitError::OutOfMemory { .. }), "{error}");
    assert_eq!(plane.shards[0].lock().aggregator.largest_free(), free);
    assert!(plane.shards[0].lock().route(7).is_none() && plane.jobs().is_empty());
}
