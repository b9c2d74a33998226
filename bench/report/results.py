"""Results of silt-bench: its JSON, the compact form that is kept, and summary.csv with the peers' figures."""

import csv
import json
import re
from pathlib import Path

COLUMNS = ("operator", "problem", "kernel", "mode", "p20_us", "p50_us", "p80_us", "gbs", "copy_fraction", "floor_us",
           "probe_us", "peer_us", "commit")
VERIFIED = "verified: "  # the label of a kernel's row
KEY = ("operator", "problem", "kernel", "mode")
MODES = ("cpu", "cpu-warm", "graph", "graph-late", "graph-nopdl", "eager")
COUNTERS = ("bytes", "flops", "gbs", "copy_fraction", "copy_fraction_p20", "floor_us", "probe_us", "sets", "launches")
# Context entries that say something about the machine or the build; the library's own guesses are left out.
CONTEXT = ("date", "protocol", "device", "device_folder", "driver", "toolkit", "compiler", "commit", "silt_version",
           "threads", "sample_us", "cold_mib", "fma_gflops", "device_copy_gbs", "device_read_gbs", "load_avg")


class BadResults(Exception):
    """A file that is not what it should be; the text names it."""


def fields_of(problem):
    """The key=value words of a problem line."""
    return dict(word.split("=", 1) for word in problem.split()[1:])


def without(problem, *keys):
    """The problem line less some fields."""
    words = problem.split()
    return " ".join(words[:1] + [word for word in words[1:] if word.split("=", 1)[0] not in keys])


def compact(document, name="results"):
    """Google Benchmark's JSON -> {"context", "rows"}: one row per benchmark, its samples and counters."""
    if not isinstance(document, dict) or "context" not in document or "benchmarks" not in document:
        raise BadResults(f"{name}: has no context and benchmarks, needs the JSON of silt-bench")
    rows = {}
    for entry in document["benchmarks"]:
        if entry.get("error_occurred"):
            raise BadResults(f"{name}: {entry['run_name']}: {entry.get('error_message', 'failed')}")
        if entry.get("run_type") != "iteration":
            continue
        label = entry.get("label", "")
        parts = entry["run_name"].split("/")
        if len(parts) < 3 or parts[2] not in MODES:
            raise BadResults(f"{name}: has a row \"{entry['run_name']}\", needs problem/kernel/mode")
        if entry.get("time_unit") != "us":
            raise BadResults(f"{name}: has times in {entry.get('time_unit')}, needs us")
        verified = label.startswith(VERIFIED)
        row = rows.setdefault(tuple(parts[:3]), {
            "operator": parts[0].split()[0], "problem": parts[0], "kernel": parts[1], "mode": parts[2],
            "verified": label.removeprefix(VERIFIED) if verified else "", "note": "" if verified else label,
            "samples_us": []})
        row["samples_us"].append(float(f"{entry['real_time']:.5g}"))
        row.update({key: entry[key] for key in COUNTERS if key in entry})
    if not rows:
        raise BadResults(f"{name}: has no rows")
    context = {key: document["context"][key] for key in CONTEXT if key in document["context"]}
    return {"context": context, "rows": list(rows.values())}


def percentile(samples, fraction):
    """Linear interpolation between neighbours, as silt-bench defines it."""
    ordered = sorted(samples)
    position = fraction * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def is_kernel(row):
    """Kernels were compared with the oracle; movers, floors and ceilings were not."""
    return bool(row["verified"])


def load(path):
    """A compact file, checked."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadResults(f"{path}: is no JSON: {error}") from error
    if not isinstance(document, dict) or not {"context", "rows"} <= document.keys():
        raise BadResults(f"{path}: has no context and rows, needs a file written by scripts/bench")
    return document


def save(path, document):
    """One row per line: readable, and a diff shows what moved."""
    rows = ",\n  ".join(json.dumps(row) for row in document["rows"])
    text = f"{{\"context\": {json.dumps(document['context'], indent=2)},\n\"rows\": [\n  {rows}\n]}}\n"
    Path(path).write_text(text, encoding="utf-8")


def read_table(path):
    """Rows of a summary.csv as dictionaries."""
    with open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise BadResults(f"{path}: has columns {reader.fieldnames}, needs {','.join(COLUMNS)}")
        return list(reader)


def write_table(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def merge_tables(old, new, keys=KEY):
    """Rows measured again, by these columns, take the place of the old ones; the others stay where they are."""
    fresh = {tuple(row[key] for key in keys): row for row in new}
    merged = [fresh.pop(tuple(row[key] for key in keys), row) for row in old]
    return merged + list(fresh.values())


def new_cells(rows, threads, measured):
    """The rows of problems and modes that are not in `measured`, which they enter: of sets that share a problem the first
    one's rows stay together, since the memory of a shared machine is not equally fast in the next."""
    fresh = [row for row in rows if (row["problem"], row["mode"], threads) not in measured]
    measured.update((row["problem"], row["mode"], threads) for row in rows)
    return fresh


def add_peers(rows, peers):
    """peer_us of every GPU row whose problem a peer measured; `stable` is a matter of launch order, not of work."""
    times = {(peer["operator"], row["problem"]): row["p50_us"] for peer in peers for row in peer["rows"]}
    for row in rows:
        us = times.get((row["operator"], without(row["problem"], "stable")))
        if us is not None and not row["mode"].startswith("cpu"):
            row["peer_us"] = f"{us:.3f}"
    return rows


CELL = ("problem", "mode")
CHAIN = "chain_"  # baselines that run a fused operator as the operators that it fuses
SAVED = ("problem", "mode", "kernel", "p50_us", "chain", "chain_p50_us", "saved_us", "saved_ms_a_step")


def saved_by_fusion(rows, calls=69):
    """Rows of SAVED: what the fastest kernel of a problem saves against the chain, a call and a decode step of `calls`."""
    found = []
    cells = {}
    for row in rows:
        cells.setdefault((row["problem"], row["mode"]), []).append((float(row["p50_us"]), row["kernel"]))
    for (problem, mode), kernels in cells.items():
        chains = [kernel for kernel in kernels if kernel[1].startswith(CHAIN)]
        fused = [kernel for kernel in kernels if not kernel[1].startswith(CHAIN)]
        if not chains or not fused:
            continue
        (chain_us, chain), (us, kernel) = min(chains), min(fused)
        values = (problem, mode, kernel, f"{us:.3f}", chain, f"{chain_us:.3f}", f"{chain_us - us:.3f}",
                  f"{(chain_us - us) * calls / 1e3:.3f}")
        found.append(dict(zip(SAVED, values)))
    return found


def read_saved(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_saved(path, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, SAVED, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def per_call(document):
    """attn_res in two phases: what a call takes when a sweep serves all its queries, beside the one-call form."""
    times = {(without(row["problem"], "stable"), row["mode"]): percentile(row["samples_us"], 0.5)
             for row in document["rows"] if is_kernel(row)}
    lines = []
    for (problem, mode), sweep in times.items():
        if problem.split()[0] != "attn_res_partials":
            continue
        fields = fields_of(problem)
        shape = f"t={fields['t']} d={fields['d']}" + (f" partial={fields['partial']}" if "partial" in fields else "")
        merge = times.get((f"attn_res_merge {shape}", mode))
        if merge is None:
            continue
        us = sweep / int(fields["q"]) + merge
        whole = times.get((f"attn_res t={fields['t']} n={fields['n']} d={fields['d']}", mode))
        one = "" if whole is None else f"; attn_res {whole:.2f} us, {whole / us:.2f} times"
        lines.append(f"{problem} {mode}: sweep {sweep:.2f} us / {fields['q']} + merge {merge:.2f} us = {us:.2f} us a "
                     f"call{one}")
    return sorted(lines, key=natural)


def set_file(name, threads):
    """The JSON file of a set; runs with a thread count of their own get it in the name."""
    return f"{name}.json" if threads is None else f"{name}-{threads}-{'thread' if threads == 1 else 'threads'}.json"


def table_file(threads):
    return "summary.csv" if threads is None else f"summary-{threads}-{'thread' if threads == 1 else 'threads'}.csv"


def natural(text):
    """A sort key that puts t=16 behind t=4."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]
