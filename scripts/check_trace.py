#!/usr/bin/env python3
"""Checks traces for Perfetto with its own schema (PyPI's `perfetto`): check_trace.py FILE...

Every packet is decoded by the official descriptors, and what the schema does not know is a mistake. With
--sql the trace processor is asked as well; it downloads itself, and where it cannot, that is said.
"""
import collections
import json
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4


def parent_chain(tracks, uuid):
    while uuid:
        track = tracks[uuid]
        yield track
        uuid = track.parent_uuid


def check(path):
    trace = schema.Trace()
    with open(path, "rb") as file:
        data = file.read()
    trace.ParseFromString(data)
    # What has no place in the schema is dropped when it is written again.
    trace.DiscardUnknownFields()
    assert trace.ByteSize() == len(data), f"{path}: fields that the schema does not know"
    tracks, names, notes = {}, {}, {}
    open_slices = collections.Counter()
    counts, started, ended = collections.Counter(), set(), set()
    counters, instants, slices = {}, collections.Counter(), collections.Counter()
    assert trace.packet[0].sequence_flags & 1, "the first packet begins the names"
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert track.uuid not in tracks, "a track is described once"
            assert not track.parent_uuid or track.parent_uuid in tracks, "parents come first"
            tracks[track.uuid] = track
            continue
        for name in packet.interned_data.event_names:
            assert names.setdefault(name.iid, name.name) == name.name
        for name in packet.interned_data.debug_annotation_names:
            assert notes.setdefault(name.iid, name.name) == name.name
        event = packet.track_event
        assert event.track_uuid in tracks, "an event on a track that is not there"
        counts[event.type] += 1
        for note in event.debug_annotations:
            assert note.name_iid in notes
        if event.type in (BEGIN, INSTANT):
            name = names[event.name_iid]
            (slices if event.type == BEGIN else instants)[name] += 1
        if event.type == BEGIN:
            open_slices[event.track_uuid] += 1
        elif event.type == END:
            open_slices[event.track_uuid] -= 1
            assert open_slices[event.track_uuid] >= 0, "a slice ends that has not begun"
        elif event.type == COUNTER:
            track = tracks[event.track_uuid]
            assert track.HasField("counter"), "a value on a track that is no counter"
            counters.setdefault(track.name, []).append(event.counter_value)
        started.update(event.flow_ids)
        ended.update(event.terminating_flow_ids)
    assert not any(open_slices.values()), "a slice has no end"
    assert ended <= started, "an arrow ends that has not begun"
    roots = [track for track in tracks.values() if track.HasField("process")]
    for uuid in tracks:
        assert any(track.HasField("process") for track in parent_chain(tracks, uuid)), "no process"
    return {
        "packets": len(trace.packet),
        "processes": [track.process.process_name for track in roots],
        "counters": {name: [min(all), max(all), len(all)] for name, all in counters.items()},
        "slices": slices,
        "instants": instants,
        "arrows": len(ended),
    }


def sql(path):
    try:
        from perfetto.trace_processor import TraceProcessor
        processor = TraceProcessor(trace=path)
    except Exception as error:  # It downloads itself, by whatever means.
        print(f"SKIPPED: {path} was not asked by SQL: the trace processor cannot be had ({type(error).__name__})")
        return
    with processor:
        row = next(iter(processor.query(
            "select (select count(*) from slice) slices, (select count(*) from counter) counters, "
            "(select count(*) from flow) flows, (select count(*) from process where name is not null) processes, "
            "(select count(*) from stats where severity = 'error' and value > 0) errors")))
        assert row.errors == 0 and row.slices and row.counters and row.processes, vars(row)
        print(f"{path}: by SQL {row.slices} slices, {row.counters} values, {row.flows} arrows, {row.processes} processes")


def main():
    files = [name for name in sys.argv[1:] if name != "--sql"]
    for path in files:
        print(json.dumps(check(path)))
        if "--sql" in sys.argv:
            sql(path)


main()
