"""What the peers share: problem lines, the timing protocol of docs/measuring.md, and the file they write.

torch is imported where it is used, so that everything else can be tested without it.
"""

import argparse
import json
import math
import sys

PROTOCOL = 1
SAMPLES = 31
REPLAY_US = 2000.0  # a shorter replay would share its start-up between too few launches


def parse_line(line):
    """"attn_res t=4 n=8 d=7168" -> ("attn_res", {"t": "4", ...})."""
    words = line.split()
    if not words:
        raise ValueError("problem: has an empty line, needs an operator and its fields")
    fields = {}
    for word in words[1:]:
        key, equals, value = word.partition("=")
        if not equals or not key or not value or key in fields:
            raise ValueError(f"problem: has \"{word}\", needs key=value, every key once ({line})")
        fields[key] = value
    return words[0], fields


def only(fields, known, line):
    """The fields as integers where they are numbers; an unknown field is an error: it would change the call."""
    for key in fields:
        if key not in known:
            raise ValueError(f"problem: field {key} is not one of {', '.join(known)} ({line})")
    return {key: int(value) if value.lstrip("-").isdigit() else value for key, value in fields.items()}


def percentile(samples, fraction):
    """Linear interpolation between neighbours, as silt-bench defines it."""
    ordered = sorted(samples)
    position = fraction * (len(ordered) - 1)
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def sets_needed(live_bytes, set_bytes, cold_bytes, memory_bytes, least=3):
    """Input sets of a rotation that has left the caches when it comes round."""
    return max(1, min(max(least, -(-cold_bytes // live_bytes)), memory_bytes // set_bytes))


def launches_needed(sets, launch_us):
    """Whole rotations that make a replay long enough."""
    return sets * max(1, math.ceil(REPLAY_US / (sets * launch_us)))


def device_limits():
    """(bytes of a cold rotation, bytes that the sets may take)."""
    import torch

    properties = torch.cuda.get_device_properties(0)
    free, _ = torch.cuda.mem_get_info()
    return properties.L2_cache_size * 5 // 2, free * 6 // 10


class Graph:
    """launch(i) for i in range(launches), captured once; sample() replays it and returns microseconds per launch."""

    def __init__(self, launch, launches):
        import torch

        self.launches = launches
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            launch(0)  # compiles outside the capture
        self.stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            for i in range(launches):
                launch(i)
        self.start = torch.cuda.Event(enable_timing=True)
        self.stop = torch.cuda.Event(enable_timing=True)
        self.sample()

    def sample(self):
        import torch

        with torch.cuda.stream(self.stream):
            torch.cuda._sleep(100_000)  # the replay is queued before the event in front of it is reached
            self.start.record()
            self.graph.replay()
            self.stop.record()
        self.stop.synchronize()
        return self.start.elapsed_time(self.stop) * 1e3 / self.launches


def timed(launch, sets, samples):
    """Samples of a launch that rotates over `sets` input sets."""
    first = Graph(launch, sets)
    launches = launches_needed(sets, first.sample())
    graph = first if launches == sets else Graph(launch, launches)
    return [graph.sample() for _ in range(samples)], launches


def fastest(variants, sets, samples):
    """variants: {name: launch}. A short contest picks one, which is then measured: (name, samples, launches)."""
    best = None
    for name, launch in variants.items():
        us = percentile(timed(launch, sets, 5)[0], 0.5)
        if best is None or us < best[0]:
            best = (us, name)
    taken, launches = timed(variants[best[1]], sets, samples)
    return best[1], taken, launches


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--problem", action="append", default=[], help="a problem line (may be given several times)")
    parser.add_argument("--problems", help="a file of problem lines; rows of silt-bench --list are problem lines too")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--out", required=True, help="the JSON file to write")
    return parser.parse_args()


def problems_of(args, op):
    """The lines for this operator, each once, in order."""
    lines = list(args.problem)
    if args.problems:
        with open(args.problems, encoding="utf-8") as file:
            lines += [line.split("/")[0].strip() for line in file if line.strip()]
    wanted = []
    for line in lines:
        if parse_line(line)[0] == op and line not in wanted:
            wanted.append(line)
    if not wanted:
        raise ValueError(f"problem: no line for {op}, needs --problem or --problems")
    return wanted


def write(path, op, rows):
    import torch
    import triton

    document = {
        "peer": "triton",
        "operator": op,
        "protocol": PROTOCOL,
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "rows": rows,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


def run(op, description, measure):
    """measure(line, fields, samples) -> row, for every problem; the exit status of the program."""
    args = arguments(description)
    try:
        lines = problems_of(args, op)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    rows = []
    for number, line in enumerate(lines):
        print(f"[{number + 1}/{len(lines)}] {line}", file=sys.stderr)
        try:
            row = measure(line, parse_line(line)[1], args.samples)
        except (ValueError, AssertionError) as error:
            print(f"{line}: {error}", file=sys.stderr)
            return 1
        rows.append(row)
        print(f"{line}: {row['p50_us']:.2f} us ({row['config']})")
    write(args.out, op, rows)
    return 0


def row_of(line, config, samples, launches, sets):
    return {
        "problem": line,
        "config": config,
        "p20_us": round(percentile(samples, 0.2), 4),
        "p50_us": round(percentile(samples, 0.5), 4),
        "p80_us": round(percentile(samples, 0.8), 4),
        "samples": len(samples),
        "launches": launches,
        "sets": sets,
    }
