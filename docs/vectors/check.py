#!/usr/bin/env python3
"""Reads the golden traces with nothing but docs/protocol.md and README.md in hand, and says where they are wrong.

An implementation of its own, by plain dictionaries. Usage: check.py [DIRECTORY]; status 1 if anything differs.
"""

import json
import struct
import sys
from pathlib import Path

HEADER = struct.Struct("<2sBBBBHQIIQIhhQII")  # docs/protocol.md, "Packet"
FIELDS = "magic version kind flags member slot key epoch round set workers scale next op op_seq check".split()
DATA, WANT, REFUSAL = 1, 2, 3
UP, RESULT, RESEND, NONFINITE, HEADER_ONLY = 1, 2, 4, 8, 16
FROM_AGGREGATOR = 255
WANT_PAUSE = 1_000_000


class Wrong(Exception):
    """Something is not as it must be."""


def expect(condition, what):
    if not condition:
        raise Wrong(what)


def internet_sum(data):
    """RFC 1071. Over data that holds its own checksum it is 0."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def datagrams(file):
    """(microseconds, source, payload) of each frame of a pcap file."""
    expect(file[:24] == struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 0x40000, 1), "pcap header")
    at, found = 24, []
    while at < len(file):
        expect(at + 16 <= len(file), "pcap record is cut off")
        seconds, micros, kept, whole = struct.unpack_from("<IIII", file, at)
        frame = file[at + 16 : at + 16 + kept]
        expect(kept == whole == len(frame) and kept >= 60, f"frame {len(found) + 1}: length")
        try:
            source, payload = datagram(frame)
        except Wrong as wrong:
            raise Wrong(f"frame {len(found) + 1}: {wrong}") from None
        found.append((seconds * 1_000_000 + micros, source, payload))
        at += 16 + kept
    return found


def datagram(frame):
    expect(frame[:14] == b"\2\0" + frame[30:34] + b"\2\0" + frame[26:30] + b"\x08\0", "Ethernet header")
    ip, udp = frame[14:34], frame[34:42]
    expect(ip[0] == 0x45 and ip[9] == 17 and internet_sum(ip) == 0, "IPv4 header")
    source_port, target_port, length, checksum = struct.unpack(">HHHH", udp)
    expect(8 <= length <= len(frame) - 34 and int.from_bytes(ip[2:4], "big") == 20 + length, "UDP length")
    expect(ip[16:20] == bytes([10, 77, 0, 1]) and target_port == 4601, "target")
    pseudo = ip[12:20] + struct.pack(">BBH", 0, 17, length)
    expect(checksum != 0 and internet_sum(pseudo + frame[34 : 34 + length]) == 0, "UDP checksum")
    expect(not any(frame[34 + length :]), "padding")
    return (".".join(map(str, ip[12:16])) + f":{source_port}", frame[42 : 34 + length])


def header_check(header):
    """R-WIRE-3."""
    h = 0x243F6A8885A308D3
    for (word,) in struct.iter_unpack("<Q", header[:52] + bytes(4)):
        h = (h ^ word) * 0x9E3779B97F4A7C15 % 2**64
        h ^= h >> 32
    return h % 2**32


def parse(payload):
    """R-VALID-1: (fields, None) or (None, counter)."""
    if len(payload) < 56:
        return None, "dropped_bad_length"
    p = dict(zip(FIELDS, HEADER.unpack(payload[:56])))
    if p["magic"] != b"TR" or p["version"] != 1:
        return None, "dropped_not_tributary"
    if p["check"] != header_check(payload[:56]):
        return None, "dropped_bad_checksum"
    if p["kind"] not in (DATA, WANT, REFUSAL) or p["flags"] > 31:
        return None, "dropped_not_tributary"
    return p, None


def emit(p, values=()):
    header = HEADER.pack(*[{"magic": b"TR", "version": 1, "check": 0, **p}[name] for name in FIELDS])
    return header[:52] + struct.pack("<I", header_check(header)) + struct.pack(f"<{len(values)}i", *values)


def wrap(value):
    return (value + 2**31) % 2**32 - 2**31


class Aggregator:
    def __init__(self, setup):
        self.epoch = setup["epoch"]
        self.jobs = {int(job["key"], 16): dict(job, aborted=None) for job in setup["jobs"]}
        for job in self.jobs.values():
            job["expected"] = 0
            for member in job["members"]:
                member["set"] = int(member["set"], 16)
                job["expected"] |= member["set"]
        self.generations = {}  # by key, slot and round mod 2

    def abort(self, key, reason, member):
        job = self.jobs[key]
        job["aborted"] = job["aborted"] or (reason, member)

    def handle(self, payload, source, now):
        """(counter, verdict, output)"""
        p, counter = parse(payload)
        if p is None:
            return counter, "quiet", None
        job = self.jobs.get(p["key"])
        if job is None:  # R-VALID-2
            return "dropped_unknown_job", "quiet", None
        member = dict(enumerate(job["members"])).get(p["member"])
        if member is None or member["address"] != source:  # R-VALID-3, R-VALID-4
            return "dropped_wrong_source", "quiet", None
        if p["kind"] != DATA or not p["flags"] & UP:  # R-VALID-5
            return "dropped_wrong_direction", "quiet", None
        if p["epoch"] > self.epoch:  # R-VALID-6
            return "dropped_wrong_epoch", "quiet", None
        if p["epoch"] < self.epoch:
            return "refused_old_epoch", "reply", self.refusal(p, 3, FROM_AGGREGATOR)
        if job["aborted"]:  # R-VALID-7
            return "refused_job_aborted", "reply", self.refusal(p, *job["aborted"])
        own = (p["set"], p["workers"]) == (member["set"], member["workers"])
        if not p["flags"] & RESULT and not own:  # R-VALID-8
            return "dropped_forbidden_set", "quiet", None
        if p["slot"] >= job["window"]:
            return "dropped_bad_slot", "quiet", None
        lanes = 0 if p["flags"] & HEADER_ONLY else job["lanes"]
        if len(payload) != 56 + 4 * lanes:  # R-VALID-9
            return "dropped_bad_length", "quiet", None
        return self.merge(p, list(struct.unpack(f"<{lanes}i", payload[56:])), job["expected"], now)

    def refusal(self, p, reason, member):
        return emit({**p, "kind": REFUSAL, "flags": 0, "member": member, "epoch": self.epoch, "scale": reason})

    def say(self, g, kind, flags=0, values=(), **others):
        """A packet about a generation."""
        return emit({**g["p"], "kind": kind, "flags": flags, "member": FROM_AGGREGATOR, **others}, values)

    def merge(self, p, values, expected, now):
        place = (p["key"], p["slot"], p["round"] % 2)
        g = self.generations.get(place)
        ahead = (p["round"] - g["p"]["round"]) % 2**32 if g else 1
        if ahead >= 2**31:  # R-CHUNK-4
            return "dropped_stale_round", "quiet", None
        if ahead:  # R-SLOT-0
            if p["flags"] & RESULT:
                return "dropped_forbidden_set", "quiet", None
            g = self.generations[place] = {"p": p, "values": values, "asked": None, "refusal": None, "done": False}
            return self.settle(g, expected, "contributions_merged", "slots_completed")
        held = g["p"]
        if g["done"]:  # R-SLOT-1
            return "results_replayed", "reply", self.result(g)
        if g["refusal"]:
            return g["refusal"][0], "reply", g["refusal"][1]
        if p["flags"] & RESULT and (g["asked"] is None or p["set"] != expected):  # R-SLOT-2
            return "dropped_forbidden_set", "quiet", None
        differs = [p[name] != held[name] for name in ("op", "op_seq")] + [(p["flags"] ^ held["flags"]) & HEADER_ONLY]
        if any(differs) or p["scale"] != held["scale"]:  # R-OP-4, R-NUM-4
            reason, counter = (1, "refused_operation_differs") if any(differs) else (2, "refused_scale_differs")
            g["refusal"] = counter, self.say(g, REFUSAL, member=p["member"], scale=reason)
            return counter, "broadcast", g["refusal"][1]
        if p["flags"] & RESULT:
            g.update(p=p, values=values)
            return self.settle(g, expected, "slots_restored", "slots_restored")
        if p["set"] & held["set"] == 0:  # R-SLOT-3
            g["values"] = [wrap(a + b) for a, b in zip(g["values"], values)]
            sums = {"set": held["set"] | p["set"], "workers": (held["workers"] + p["workers"]) % 2**32}
            flags = held["flags"] | p["flags"] & NONFINITE
            g["p"] = {**held, **sums, "flags": flags, "next": max(held["next"], p["next"])}
            return self.settle(g, expected, "contributions_merged", "slots_completed")
        if p["set"] | held["set"] == held["set"]:  # R-SLOT-4
            if not p["flags"] & RESEND or (g["asked"] is not None and now - g["asked"] < WANT_PAUSE):
                return "duplicates", "quiet", None
            g["asked"] = now
            return "wants_sent", "broadcast", self.say(g, WANT)
        superset = p["set"] | held["set"] == p["set"]  # R-SLOT-5, R-SLOT-6
        g.update(p=p, values=values)
        counter = "contributions_replaced" if superset else "contributions_overlapping"
        return self.settle(g, expected, counter, "slots_completed")

    def result(self, g):
        flags = g["p"]["flags"] & (NONFINITE | HEADER_ONLY)
        return self.say(g, DATA, RESULT | flags, g["values"])

    def settle(self, g, expected, still_open, complete):
        if expected & ~g["p"]["set"]:
            return still_open, "quiet", None
        g["done"] = True  # R-SLOT-7
        return complete, "broadcast", self.result(g)


def check_trace(path):
    """Raises Wrong at the first difference; the number of packets otherwise."""
    setup, *events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    expect(setup["format"] == 1, "format")
    packets = datagrams(path.with_suffix(".pcap").read_bytes())
    expect(len(packets) == setup["packets"], "number of packets")
    aggregator, count = Aggregator(setup), 0
    for event in events:
        if "abort" in event:
            aggregator.abort(int(event["abort"], 16), event["reason"], event["member"])
            continue
        expect(count < len(packets) and event["packet"] == count + 1, f"line of packet {event['packet']}: number")
        micros, source, payload = packets[count]
        count, now = count + 1, event["now"]
        expect(now // 1000 == micros, f"packet {count}: time")
        counter, verdict, output = aggregator.handle(payload, source, now)
        got = {"counter": counter, "verdict": verdict, "output": output.hex() if output is not None else None}
        for name, value in got.items():
            said = event.get(name)
            expect(value == said, f"packet {count} ({event['about']}): {name}: file {said}, protocol {value}")
    expect(count == len(packets), "packets without a line")
    return count


def main(directory):
    failed = total = 0
    traces = sorted(directory.glob("*.jsonl"))
    stray = {path.stem for path in directory.glob("*.pcap")} - {path.stem for path in traces}
    for failed, name in enumerate(sorted(stray), 1):
        print(f"{name}: a pcap file without expectations")
    for path in traces:
        try:
            count = check_trace(path)
        except (Wrong, OSError, ValueError, KeyError, TypeError) as error:
            failed += 1
            print(f"{path.stem}: {type(error).__name__}: {error}")
        else:
            total += count
            print(f"{path.stem}: {count} packets")
    print(f"{len(traces)} traces, {total} packets as expected, {failed} wrong")
    return 1 if failed or not traces else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent))
