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
UP, RESULT, RESEND, NONFINITE, HEADER_ONLY, CONGESTED = 1, 2, 4, 8, 16, 32
FROM_AGGREGATOR = 255
SUM, AVG, MIN, MAX = range(4)  # R-OP-6: operations, in bits 4-5 of a kind
PAUSE = 1_000_000  # R-SLOT-4, R-LEAF-2


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
    if p["kind"] not in (DATA, WANT, REFUSAL) or p["flags"] > 63:
        return None, "dropped_not_tributary"
    return p, None


def emit(p, values=()):
    header = HEADER.pack(*[{"magic": b"TR", "version": 1, "check": 0, **p}[name] for name in FIELDS])
    return header[:52] + struct.pack("<I", header_check(header)) + struct.pack(f"<{len(values)}i", *values)


def wrap(value):
    return (value + 2**31) % 2**32 - 2**31


def kind(p):
    """R-OP-6: (operation, whether it is scaled), or None where the number is no kind."""
    number = p["op"] >> 56
    plain = {1: (SUM, False), 2: (SUM, True), 3: (None, False)}
    if number & 0xC0 != 0x80:
        return plain.get(number)
    operation, element, width = number >> 4 & 3, number >> 2 & 3, number & 3
    if operation in (MIN, MAX):
        return (operation, False) if width == 0 else None
    f32, integers = element == 1, element == 0
    exists = not integers and width < 3 and (operation, f32, width) != (SUM, True, 0)
    return (operation, True) if exists else None


def combined(p, a, b):
    """R-SLOT-3: the values of an operation, combined lane by lane."""
    merge = {MIN: min, MAX: max}.get(kind(p)[0], lambda x, y: wrap(x + y))
    return [merge(x, y) for x, y in zip(a, b)]


def is_after(a, b):
    """R-CHUNK-4."""
    return 0 < (a - b) % 2**32 < 2**31


class Aggregator:
    def __init__(self, setup):
        self.epoch = setup["epoch"]
        self.jobs = {}
        self.generations = {}  # by key, slot and round modulo the job's generations
        for job in setup["jobs"]:
            self.admit(job)

    def admit(self, line):
        key = int(line["key"], 16)
        self.generations = {place: g for place, g in self.generations.items() if place[0] != key}
        job = {"epoch": self.epoch, "generations": 2, "quorum": None, "parent": None, "frames": None, **line}
        job.update(aborted=None, suspended=False, removed=0, late=0, expected=0)
        job["members"] = [{**member, "set": int(member["set"], 16)} for member in line["members"]]
        for member in job["members"]:
            job["expected"] |= member["set"]
        self.jobs[key] = job

    def event(self, event):
        """Something that is no packet."""
        if "abort" in event:
            job = self.jobs[int(event["abort"], 16)]
            job["aborted"] = job["aborted"] or (event["reason"], event["member"])
        elif "suspend" in event:
            self.jobs[int(event["suspend"], 16)]["suspended"] = True
        elif "exclude" in event:
            job = self.jobs[int(event["exclude"], 16)]
            gone = job["members"][event["member"]]["set"]
            job["removed"], job["expected"] = job["removed"] | gone, job["expected"] & ~gone
        elif "stored" in event:  # R-SPILL-2: the sum of just these is here, or was given to the store whole
            g = self.generations[int(event["stored"], 16), event["slot"], event["round"] % 2]
            expect(not g["stored"] and g["p"]["round"] == event["round"] and g["p"]["set"] == int(event["set"], 16), "stored: what is put")
            g.update(stored=g["p"]["set"], kept=g["values"], values=None, near=False)
        elif "recalled" in event:
            self.expect_all(event, *self.recalled(event))
        elif "store_lost" in event:
            self.store_lost(int(event["store_lost"], 16))
        else:
            self.admit(event["admit"])

    def recalled(self, event):
        """R-SPILL-3: (what it is, (counter, verdict, output))"""
        job = self.jobs[int(event["recalled"], 16)]
        g = self.generations[int(event["recalled"], 16), event["slot"], event["round"] % 2]
        if g["p"]["round"] != event["round"] or not g["stored"] or g["stored"] != int(event["set"], 16):
            return "recalled", ("duplicates", "quiet", None)
        here = g["kept"] if g["values"] is None else combined(g["p"], g["values"], g["kept"])
        g.update(values=here, stored=0, near=True)
        if g["state"] == "recalling":
            g["state"] = "open"
        return "recalled", self.settle(g, job, "contributions_merged", event["now"])

    def store_lost(self, key):
        """R-SPILL-4; where no frame is free then, a sum that waits goes, too: with one frame, the one."""
        of_job = [g for place, g in self.generations.items() if place[0] == key]
        for g in of_job:
            if g["stored"]:
                self.empty(g)
        waiting = [g for g in of_job if g["near"] and g["state"] in ("open", "recalling")]
        if len(waiting) == self.jobs[key]["frames"] - 1:
            self.empty(waiting[0])

    def empty(self, g):
        """R-SPILL-1, R-SPILL-4."""
        g["p"] = {**g["p"], "set": 0, "workers": 0}
        if g["state"] == "complete":
            g["asked"] = None
        g.update(state="open", stored=0, near=False)

    def find_frame(self, p, job):
        """R-SPILL-1: whether there is a frame, if one is needed; and whether a result was forgotten for it."""
        of_job = [other for place, other in self.generations.items() if place[0] == p["key"]]
        if sum(other["near"] for other in of_job) < job["frames"] - 1:
            return True, None
        complete = [other for other in of_job if other["near"] and other["state"] == "complete"]
        if not complete:
            return False, None
        expect(len(complete) == 1, "which result is forgotten the rules leave open")
        self.empty(complete[0])
        return True, "results_forgotten"

    def merge_near(self, p, values, job, now):
        """R-SPILL-1 to R-SPILL-3: merge, with a frame."""
        place = self.place(p, job)
        g = self.generations.get(place)
        newer = g is None or is_after(p["round"], g["p"]["round"])
        if newer:
            taken = not p["flags"] & RESULT
        else:
            new = g["asked"] is not None if p["flags"] & RESULT else p["set"] & ~g["p"]["set"]
            taken = g["state"] == "open" and g["p"]["round"] == p["round"] and new
        near, also = bool(g and g["near"]), None
        passes = False
        if taken and not near and not p["flags"] & HEADER_ONLY:
            frame, also = self.find_frame(p, job)
            if not frame and not p["flags"] & RESULT:
                return *self.turn_away(p, g, newer, place, job, now), None
            passes = not frame
            if g and not newer:
                g["values"] = None  # what it holds is in the store
        answer = self.merge(p, values, job, now)
        g = self.generations.get(place)
        if g:
            held = g["p"]
            g["near"] = bool((near or taken) and held["set"] and not held["flags"] & HEADER_ONLY)
            if passes:
                self.empty(g)
        return *answer, also

    def turn_away(self, p, g, newer, place, job, now):
        """R-SPILL-1: no frame."""
        pause = not newer and g["asked"] is not None and now - g["asked"] < PAUSE
        if not p["flags"] & RESEND or pause:
            return "dropped_no_free_frame", "quiet", None
        if newer:
            self.generations[place] = g = self.opened({**p, "flags": 0, "set": 0, "workers": 0}, [], now)
        return "dropped_no_free_frame", *self.want(g, job, now)[1:]

    def expect_all(self, event, what, answer):
        counter, verdict, output, *also = answer
        got = {"counter": counter, "verdict": verdict, "output": output.hex() if output is not None else None}
        got["also"] = also[0] if also else None
        for name, value in got.items():
            said = event.get(name)
            expect(value == said, f"{what} ({event['about']}): {name}: file {said}, protocol {value}")

    def handle(self, payload, source, now):
        """(counter, verdict, output)"""
        p, counter = parse(payload)
        if p is None:
            return counter, "quiet", None
        job = self.jobs.get(p["key"])
        if job is None:  # R-VALID-2
            return "dropped_unknown_job", "quiet", None
        if job["parent"] and not p["flags"] & UP:
            return self.handle_down(p, payload[56:], source, job, now)
        member = dict(enumerate(job["members"])).get(p["member"])
        if member is None or member["address"] != source:  # R-VALID-3, R-VALID-4
            return "dropped_wrong_source", "quiet", None
        if p["kind"] != DATA or not p["flags"] & UP:  # R-VALID-5
            return "dropped_wrong_direction", "quiet", None
        if p["epoch"] > job["epoch"]:  # R-VALID-6
            return "dropped_wrong_epoch", "quiet", None
        if p["epoch"] < job["epoch"]:
            return "refused_old_epoch", "reply", self.refusal(p, job, 3, FROM_AGGREGATOR)
        if job["aborted"]:  # R-VALID-7
            return "refused_job_aborted", "reply", self.refusal(p, job, *job["aborted"])
        if job["suspended"]:
            return "refused_job_reforming", "reply", self.refusal(p, job, 7, FROM_AGGREGATOR)
        if job["removed"] & member["set"]:
            return "refused_member_removed", "reply", self.refusal(p, job, 8, FROM_AGGREGATOR)
        own = (p["set"], p["workers"]) == (member["set"], member["workers"])
        if not p["flags"] & RESULT and not own:  # R-VALID-8
            return "dropped_forbidden_set", "quiet", None
        if p["slot"] >= job["window"]:
            return "dropped_bad_slot", "quiet", None
        if kind(p) is None:
            return "dropped_unknown_operation", "quiet", None
        values = self.values(p, payload[56:], job)
        if values is None:  # R-VALID-9
            return "dropped_bad_length", "quiet", None
        for (key, slot, _), g in self.generations.items():  # R-QUORUM-2
            if (key, slot) == (p["key"], p["slot"]) and is_after(p["round"], g["p"]["round"]):
                g["past"] |= member["set"]
        if job["frames"]:
            return self.merge_near(p, values, job, now)
        answer = self.merge(p, values, job, now)
        if job["quorum"] and answer[0] in ("contributions_merged", "slots_completed"):  # R-QUORUM-1: who is late
            job["late"] &= ~member["set"]
            if answer[0] == "slots_completed":
                job["late"] |= job["expected"] & ~self.generations[self.place(p, job)]["p"]["set"]
        return answer

    def handle_down(self, p, rest, source, job, now):
        """R-VALID-10."""
        if source != job["parent"]["address"]:
            return "dropped_wrong_source", "quiet", None
        if p["epoch"] != job["parent"]["epoch"]:
            return "dropped_wrong_epoch", "quiet", None
        if job["aborted"] or job["suspended"]:
            return "refused_job_aborted", "quiet", None
        if p["slot"] >= job["window"]:
            return "dropped_bad_slot", "quiet", None
        if kind(p) is None:
            return "dropped_unknown_operation", "quiet", None
        values = self.values(p, rest, job)
        if values is None if p["kind"] == DATA else rest:
            return "dropped_bad_length", "quiet", None
        if p["kind"] == DATA and not p["flags"] & RESULT:
            return "dropped_wrong_direction", "quiet", None
        if p["kind"] == REFUSAL and p["scale"] not in (1, 2):  # R-LEAF-5
            return "refused_by_parent", "quiet", None
        place = self.place(p, job)
        g = self.generations.get(place)
        if p["kind"] == WANT and (g is None or is_after(p["round"], g["p"]["round"])):  # R-LEAF-4
            self.generations[place] = g = self.opened({**p, "flags": 0, "set": 0, "workers": 0}, [], now)
            return self.want(g, job, now)
        if g is None or g["p"]["round"] != p["round"]:
            return "dropped_stale_round", "quiet", None
        answer = {DATA: self.result_down, WANT: self.want_down, REFUSAL: self.refusal_down}[p["kind"]]
        return answer(g, p, values, job, now)

    def values(self, p, rest, job):
        lanes = 0 if p["flags"] & HEADER_ONLY else job["lanes"]
        return list(struct.unpack(f"<{lanes}i", rest)) if len(rest) == 4 * lanes else None

    def place(self, p, job):
        return p["key"], p["slot"], p["round"] % job["generations"]

    def opened(self, p, values, now):
        return {"p": p, "values": values, "since": now, "asked": None, "up": None, "past": 0, "refusal": None, "state": "open", "near": False, "stored": 0}

    def refusal(self, p, job, reason, member):
        return emit({**p, "kind": REFUSAL, "flags": 0, "member": member, "epoch": job["epoch"], "scale": reason})

    def say(self, g, job, kind, flags=0, values=(), **others):
        """A packet about a generation."""
        about = {"kind": kind, "flags": flags, "member": FROM_AGGREGATOR, "epoch": job["epoch"]}
        return emit({**g["p"], **about, **others}, values)

    def merge(self, p, values, job, now):
        place = self.place(p, job)
        g = self.generations.get(place)
        if g is None or is_after(p["round"], g["p"]["round"]):  # R-SLOT-0
            if p["flags"] & RESULT:
                return "dropped_forbidden_set", "quiet", None
            if g and job["quorum"] and job["expected"] & ~g["past"]:  # R-QUORUM-3
                others = {"kind": WANT, "flags": 0, "member": FROM_AGGREGATOR, "epoch": job["epoch"], "set": g["past"]}
                answer = ("reply", emit({**p, **others})) if p["flags"] & RESEND else ("quiet", None)
                return "contributions_held_back", *answer
            g = self.generations[place] = self.opened(p, values, now)
            return self.settle(g, job, "contributions_merged", now, p["member"])
        held = g["p"]
        if p["round"] != held["round"]:
            return "dropped_stale_round", "quiet", None
        if g["state"] == "complete":  # R-SLOT-1
            return "results_replayed", "reply", self.result(g, job, RESULT | RESEND)
        if g["state"] == "conflicting":
            return g["refusal"][0], "reply", g["refusal"][1]
        if g["state"] == "recalling":  # R-SPILL-3
            again = p["flags"] & RESEND and now - g["asked"] >= PAUSE
            g["asked"] = now if again else g["asked"]
            return "contributions_merged" if again else "duplicates", "quiet", None
        if g["state"] == "full":  # R-LEAF-2
            again = p["flags"] & (RESEND | RESULT) == RESEND and now - g["up"] >= PAUSE
            return self.go_up(g, job, now) if again else ("duplicates", "quiet", None)
        if p["flags"] & RESULT and (g["asked"] is None or job["quorum"]):  # R-SLOT-2
            return "dropped_forbidden_set", "quiet", None
        reason = self.difference(g, p)
        if reason:
            return self.conflict(g, job, reason, p["member"])
        if p["flags"] & RESULT:
            return self.restore(g, p, values, job, "slots_restored")
        if held["set"] == 0:  # R-SLOT-3, and R-LEAF-4
            g.update(p=p, values=values, stored=0)
            return self.settle(g, job, "contributions_merged", now, p["member"])
        if p["set"] & held["set"] == 0:
            g["values"] = values if g["values"] is None else combined(p, g["values"], values)
            sums = {"set": held["set"] | p["set"], "workers": (held["workers"] + p["workers"]) % 2**32}
            flags = held["flags"] | p["flags"] & (NONFINITE | CONGESTED)
            g["p"] = {**held, **sums, "flags": flags, "next": max(held["next"], p["next"])}
            return self.settle(g, job, "contributions_merged", now, p["member"])
        if p["set"] | held["set"] == held["set"]:  # R-SLOT-4
            if self.is_due(g, job, now):
                return self.settle(g, job, None, now, p["member"])
            if not p["flags"] & RESEND or (g["asked"] is not None and now - g["asked"] < PAUSE):
                return "duplicates", "quiet", None
            return self.want(g, job, now)
        superset = p["set"] | held["set"] == p["set"]  # R-SLOT-5, R-SLOT-6
        g.update(p=p, values=values, stored=0)
        counter = "contributions_replaced" if superset else "contributions_overlapping"
        return self.settle(g, job, counter, now, p["member"])

    def difference(self, g, p):
        """R-OP-4, R-NUM-4: the reason of a refusal, if there is one."""
        held = g["p"]
        same = p["op"] == held["op"] and p["op_seq"] == held["op_seq"] and not (p["flags"] ^ held["flags"]) & HEADER_ONLY
        if held["set"] == 0 or same and p["scale"] == held["scale"]:
            return None
        return 2 if same else 1

    def conflict(self, g, job, reason, offender):
        counter = "refused_operation_differs" if reason == 1 else "refused_scale_differs"
        g["state"], g["refusal"] = "conflicting", (counter, self.say(g, job, REFUSAL, member=offender, scale=reason))
        return counter, "broadcast", g["refusal"][1]

    def want(self, g, job, now):
        g["asked"] = now
        return "wants_sent", "broadcast", self.say(g, job, WANT)

    def result(self, g, job, flags=RESULT, **others):
        kept = g["p"]["flags"] & (NONFINITE | HEADER_ONLY | CONGESTED)
        return self.say(g, job, DATA, flags | kept, g["values"], **others)

    def restore(self, g, p, values, job, counter):
        """R-SLOT-2, R-LEAF-3: the set is this level's."""
        g.update(p={**p, "set": job["expected"]}, values=values, stored=0, state="complete")
        return counter, "broadcast", self.result(g, job)

    def is_due(self, g, job, now):
        missing = job["expected"] & ~g["p"]["set"]
        if not missing or not job["quorum"] or not kind(g["p"])[1]:
            return not missing
        enough = min(job["quorum"]["members"], job["expected"].bit_count())  # R-QUORUM-1
        waited = now - g["since"] >= job["quorum"]["grace"]
        return g["p"]["set"].bit_count() >= enough and (waited or not missing & ~job["late"])

    def settle(self, g, job, still_open, now, member=FROM_AGGREGATOR):
        """`member` is whose contribution came last."""
        if not self.is_due(g, job, now):
            return still_open, "quiet", None
        if g["stored"]:  # R-SPILL-3
            g["state"], g["asked"] = "recalling", now
            return "contributions_merged", "quiet", None
        if job["parent"]:
            g["state"] = "full"
            return self.go_up(g, job, now)
        g["state"] = "complete"  # R-SLOT-7
        return "slots_completed", "broadcast", self.result(g, job, member=member)

    def go_up(self, g, job, now):
        """R-LEAF-1, R-LEAF-2."""
        again, g["up"] = g["up"] is not None, now
        parent = job["parent"]
        flags = UP | (RESEND if again else 0)
        own = {"member": parent["member"], "set": 1 << parent["member"], "epoch": parent["epoch"]}
        counter = "contributions_forwarded_again" if again else "contributions_forwarded"
        return counter, "forward", self.result(g, job, flags, **own)

    def result_down(self, g, p, values, job, now):
        """R-LEAF-3."""
        if g["state"] == "complete":
            return "duplicates", "quiet", None
        if g["state"] == "conflicting":
            return "dropped_stale_round", "quiet", None
        if self.difference(g, p):
            return "dropped_forbidden_set", "quiet", None
        return self.restore(g, p, values, job, "results_from_parent")

    def want_down(self, g, p, values, job, now):
        """R-LEAF-4."""
        parent = job["parent"]
        if g["state"] == "conflicting":
            return "duplicates", "quiet", None
        if g["state"] == "complete":
            own = {"member": parent["member"], "epoch": parent["epoch"]}
            return "results_sent_to_parent", "forward", self.result(g, job, UP | RESULT, **own)
        if g["state"] == "full" and not p["set"] >> parent["member"] & 1:
            return self.go_up(g, job, now)
        return self.want(g, job, now)

    def refusal_down(self, g, p, values, job, now):
        """R-LEAF-5."""
        if g["state"] in ("complete", "conflicting"):
            return "dropped_stale_round", "quiet", None
        g["p"] = {**g["p"], "set": 0, "op": p["op"], "op_seq": p["op_seq"]}
        return self.conflict(g, job, p["scale"], FROM_AGGREGATOR)


def check_trace(path):
    """Raises Wrong at the first difference; the number of packets otherwise."""
    setup, *events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    expect(setup["format"] == 1, "format")
    packets = datagrams(path.with_suffix(".pcap").read_bytes())
    expect(len(packets) == setup["packets"], "number of packets")
    aggregator, count = Aggregator(setup), 0
    for event in events:
        if "packet" not in event:
            aggregator.event(event)
            continue
        expect(count < len(packets) and event["packet"] == count + 1, f"line of packet {event['packet']}: number")
        micros, source, payload = packets[count]
        count, now = count + 1, event["now"]
        expect(now // 1000 == micros, f"packet {count}: time")
        aggregator.expect_all(event, f"packet {count}", aggregator.handle(payload, source, now))
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
