//! Pools, mbufs, ports and queues, over rings in this process: no privileges, no huge pages.
//!
//! DPDK starts once in a process, so all of a file is one test.

use dpdk_host::dpdk::{BURST, Burst, Device, DpdkError, Eal, Mbuf, Pool, Port, PortConfig};

#[path = "common/eal.rs"]
mod eal;

const ROOM: u16 = 2048;
const RING: u32 = 64;
const MBUFS: u32 = 255;

/// A frame whose bytes are all the same.
fn frame(pool: &Pool, byte: u8, len: usize) -> Mbuf {
    let mut mbuf = pool.take().expect("a free mbuf");
    mbuf.room_mut()[..len].fill(byte);
    mbuf.set_len(len);
    mbuf
}

#[test]
fn mbufs_are_owned_by_one_and_frames_come_out_as_they_went_in() {
    let eal = eal::start();
    let again = Eal::start(&["--no-huge"]).unwrap_err();
    assert_eq!(again, DpdkError::Twice);
    assert!(Eal::version().starts_with("DPDK "), "{}", Eal::version());

    let pool = Pool::new(&eal, "frames", MBUFS, ROOM, None).unwrap();
    mbufs_go_back(&pool);
    refusals_say_why(&eal);
    rings_carry_frames(&eal, &pool);
    assert_eq!(pool.available(), MBUFS, "all mbufs are back");
}

fn mbufs_go_back(pool: &Pool) {
    let mbuf = frame(pool, 7, 60);
    assert_eq!((mbuf.bytes(), mbuf.segments()), ([7; 60].as_slice(), 1));
    assert!(mbuf.room() >= usize::from(ROOM), "room for {}", mbuf.room());
    assert_eq!(pool.available(), MBUFS - 1);
    drop(mbuf);
    assert_eq!(pool.available(), MBUFS);

    let mut burst = Burst::default();
    assert!(pool.take_some(BURST, &mut burst) && burst.is_full());
    assert!(!pool.take_some(1, &mut burst), "it is full");
    let extra = burst.push(frame(pool, 1, 60)).unwrap_err();
    assert_eq!(extra.bytes(), [1; 60]);
    drop(burst.pop());
    assert!(burst.push(extra).is_ok());
    assert_eq!(pool.available(), MBUFS - BURST as u32);
    // One is asked for, and the others go back as well.
    assert!(burst.drain().next().is_some());
    assert!(burst.is_empty());
    assert_eq!(pool.available(), MBUFS);

    let mut bursts: [Burst; 4] = Default::default();
    let taken = bursts.each_mut().map(|burst| pool.take_some(BURST, burst));
    assert_eq!(taken, [true, true, true, false], "the last is one short");
    drop(bursts);
    assert_eq!(pool.available(), MBUFS);
}

fn refusals_say_why(eal: &Eal) {
    let refused = |error: DpdkError| error.to_string();
    let error = refused(Device::find(eal, "0000:99:00.0").unwrap_err());
    assert!(
        error.starts_with("device 0000:99:00.0 cannot be used: No such device: bind it to vfio-pci"),
        "{error}"
    );
    let error = refused(Device::add(eal, "net_nothing0", "").unwrap_err());
    assert!(
        error.starts_with("device net_nothing0, cannot be used: "),
        "{error}"
    );
    let error = refused(Pool::new(eal, "frames", 8, ROOM, None).unwrap_err());
    assert!(
        error.starts_with("8 mbufs of 2048 bytes cannot be had: File exists"),
        "{error}"
    );
    let error = refused(Pool::new(eal, "large", 1 << 20, ROOM, None).unwrap_err());
    assert!(
        error.starts_with("1048576 mbufs of 2048 bytes cannot be had: Cannot allocate memory"),
        "{error}"
    );
    let error = refused(Device::ring_pair(eal, "odd", 63).unwrap_err());
    assert!(
        error.contains("Invalid argument: give a size that is a power of two"),
        "{error}"
    );
}

fn rings_carry_frames(eal: &Eal, pool: &Pool) {
    let devices = Device::ring_pair(eal, "wire", RING).unwrap();
    let names = Device::names(eal);
    for device in &devices {
        assert!(
            names.iter().any(|name| name == device.name()),
            "{} is in {names:?}",
            device.name()
        );
        assert!(Device::find(eal, device.name()).is_ok());
        let info = device.info().unwrap();
        assert_eq!((info.driver.as_str(), info.max_queues), ("net_ring", 1));
        assert!(!info.has_checksums);
    }
    let ports = devices.map(|device| Port::start(device, pool, &PortConfig::default()).unwrap());
    let [(near, mut here), (far, mut there)] = ports;
    assert!(near.receive_ring() > 0);
    let mut burst = Burst::default();
    assert_eq!(there[0].receive(BURST, &mut burst), 0, "nothing has been sent");
    for byte in 0..BURST as u8 {
        assert!(burst.push(frame(pool, byte, 60 + usize::from(byte))).is_ok());
    }
    // A ring of n holds n - 1 frames: the last one stays.
    assert_eq!(here[0].send(&mut burst), BURST - 1);
    let left = burst.pop().expect("the last");
    assert_eq!(left.bytes()[0], BURST as u8 - 1);
    drop(left);
    assert_eq!(there[0].receive(3, &mut burst), 3);
    assert_eq!(there[0].receive(BURST, &mut burst), BURST - 4);
    let came: Vec<(u8, usize)> = burst
        .drain()
        .map(|mbuf| (mbuf.bytes()[0], mbuf.bytes().len()))
        .collect();
    let went: Vec<(u8, usize)> = (0..BURST as u8 - 1)
        .map(|byte| (byte, 60 + usize::from(byte)))
        .collect();
    assert_eq!(came, went);
    assert_eq!(near.stats().unwrap().sent, BURST as u64 - 1);
    assert_eq!(far.stats().unwrap().received, BURST as u64 - 1);
}
