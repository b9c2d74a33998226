"""Two programs measured alternately, A B A B: ratios with their spread."""

from results import BadResults, is_kernel, percentile


def ratios(runs_a, runs_b):
    """Per kernel row: p50 and p20 of B over A, round by round. A ratio above 1 means that A is faster.

    runs_a and runs_b are compact documents, one per round, in the order they ran.
    """
    if not runs_a or len(runs_a) != len(runs_b):
        raise BadResults(f"compare: has {len(runs_a)} and {len(runs_b)} runs, needs as many of one as of the other")
    found = {}
    for a, b in zip(runs_a, runs_b):
        times_b = {row_key(row): row["samples_us"] for row in b["rows"] if is_kernel(row)}
        for row in a["rows"]:
            samples = times_b.get(row_key(row)) if is_kernel(row) else None
            if samples is None:
                continue
            entry = found.setdefault(row_key(row), {"p50": [], "p20": []})
            for name, fraction in (("p50", 0.5), ("p20", 0.2)):
                entry[name].append(percentile(samples, fraction) / percentile(row["samples_us"], fraction))
    found = {key: entry for key, entry in found.items() if len(entry["p50"]) == len(runs_a)}
    if not found:
        raise BadResults("compare: the two revisions have no row in common")
    return found


def row_key(row):
    return row["problem"], row["kernel"], row["mode"]


def verdict(entry, limit):
    """What a row's ratios say against a limit in percent: "same" unless every round agrees, in the median of the times
    and in their 20th percentile, and both are beyond the limit."""
    everything = entry["p50"] + entry["p20"]
    medians = [percentile(values, 0.5) for values in (entry["p50"], entry["p20"])]
    if max(medians) < 1 - limit / 100 and max(everything) < 1:
        return "slower"
    if min(medians) > 1 + limit / 100 and min(everything) > 1:
        return "faster"
    return "same"


def table(found, limit):
    """Lines to print, and whether any row is slower."""
    lines = [f"{'ratio':>6} {'min':>6} {'max':>6}  {'p20':>6}  {'':<6}  row   (B time / A time, A = this tree)"]
    slower = False
    for (problem, kernel, mode), entry in found.items():
        says = verdict(entry, limit)
        slower = slower or says == "slower"
        lines.append(f"{percentile(entry['p50'], 0.5):6.3f} {min(entry['p50']):6.3f} {max(entry['p50']):6.3f}  "
                     f"{percentile(entry['p20'], 0.5):6.3f}  {says:<6}  {problem}/{kernel}/{mode}")
    return lines, slower
