use agg_control::{MemberSpec, Policy};
use agg_host::SlotMemory;

use super::*;
use crate::Network;

fn plane() -> Plane {
    let memory = SlotMemory::of(1 << 20, 0);
    let local: SocketAddr = "10.0.0.1:4601".parse().unwrap();
    let network = Network {
        address: local.ip(),
        prefix: 24,
        gateway: None,
    };
    Plane {
        shard: Arc::new(Shard::new(memory.aggregator().unwrap(), network)),
        epoch: Epoch(3),
        local,
        framing: Framing::new(&local, None),
        about: About {
            name: "net_ring0".to_owned(),
            driver: "net_ring".to_owned(),
            mac: [2; 6],
            mtu: 1500,
            ring: 512,
        },
        memory: memory.bytes(),
        names: Mutex::default(),
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
    assert_eq!(plane.shard.lock().route(7).unwrap().members.len(), 2);
    assert_eq!(plane.lags(7).len(), 2);
    assert!(
        plane.admit(&job(&["10.0.0.2:5", "10.0.0.3:5"], 352)).is_err(),
        "the key is taken"
    );
    plane.suspend(7);
    plane.admit(&job(&["10.0.0.2:5", "10.0.0.4:5"], 352)).unwrap();
    plane.release(7);
    assert_eq!((plane.free_memory(), plane.jobs().len()), (free, 0));
    assert!(plane.shard.lock().route(7).is_none());
    let counters = &plane.counters()[0].values;
    assert!(
        counters
            .iter()
            .any(|(name, value)| name == "frames_received" && *value == 0)
    );
}
