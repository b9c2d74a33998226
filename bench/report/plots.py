"""SVG plots of kept results: time against tokens or rows, and bandwidth against bytes with the ceilings."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: E402

from results import fields_of, is_kernel, natural, percentile, without  # noqa: E402

# What a problem's size is; everything else of the line tells panels apart.
SIZE = {"attn_res": ("t", "tokens"), "kda_decode": ("b", "rows (sequences)")}
LATE = ("stable",)  # fields that belong to a launch mode, not to the problem
COLOURS = ("#0060b0", "#d1570a", "#3a8f3a", "#8a3fa0", "#a08000", "#b0305a")
CEILINGS = {
    "ceiling_read": ("read", "#b0b0b0", ":"),
    "ceiling_in_place": ("in-place update", "#808080", (0, (6, 2))),
    "ceiling_copy_nt": ("non-temporal copy", "#404040", "-"),
    "ceiling_copy": ("plain copy", "#808080", "-."),
}

plt.rcParams.update({
    "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.7, "lines.linewidth": 1.6, "lines.markersize": 4.5,
    "legend.frameon": False, "svg.hashsalt": "silt", "figure.facecolor": "white",
})


def panel_of(row):
    """What one panel holds: the problem without its size."""
    size = SIZE.get(row["operator"], ("", ""))[0]
    return without(row["problem"], size, *LATE)


def size_of(row):
    return int(fields_of(row["problem"])[SIZE[row["operator"]][0]])


def panel_title(panel):
    """"attn_res n=8 d=7168" -> "n = 8, d = 7168"."""
    return ", ".join(word.replace("=", " = ") for word in panel.split()[1:])


def plain(value, _=None):
    """Numbers as people write them: 0.5, 20, 4096."""
    return f"{value:g}"


def device_text(context):
    name = context.get("device", "unknown device").split(" (")[0]
    threads = f", {context['threads']} threads" if context.get("driver", "none") == "none" else ""
    return f"{name}{threads}".replace(", 1 threads", ", 1 thread")


def series(rows):
    """{name: [(size, p20, p50, p80)]}, sorted by size."""
    found = {}
    for row in rows:
        p = [percentile(row["samples_us"], fraction) for fraction in (0.2, 0.5, 0.8)]
        found.setdefault((row["kernel"], row["mode"]), []).append((size_of(row), *p))
    return {key: sorted(points) for key, points in found.items()}


def line_of(rows, key):
    """[(size, value)] of a counter; the smallest where rows of one size differ (modes have floors of their own)."""
    best = {}
    for row in rows:
        if row.get(key) is not None:
            best[size_of(row)] = min(row[key], best.get(size_of(row), row[key]))
    return sorted(best.items())


def peer_line(rows, peers):
    times = {row["problem"]: row["p50_us"] for peer in peers for row in peer["rows"]}
    points = {size_of(row): times[without(row["problem"], *LATE)] for row in rows
              if without(row["problem"], *LATE) in times}
    return sorted(points.items())


def log_axis(axis, values, base):
    """A logarithmic axis with plain numbers: every size on x where there are few, 1-2-5 steps elsewhere."""
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_locator(NullLocator())
    if base == 2 and len(values) <= 8:
        axis.set_major_locator(FixedLocator(sorted(values)))
    else:
        low, high = min(values), max(values)
        steps = [m * 10.0**e for e in range(-3, 7) for m in (1, 2, 5)]
        steps = [step for step in steps if low / 2.1 <= step <= high * 2.1]
        while len(steps) > 8:
            steps = steps[::2]
        axis.set_major_locator(FixedLocator(steps))


def draw_times(ax, rows, peers):
    """One panel; returns the y values, for the limits."""
    kernels = [row for row in rows if is_kernel(row)]
    seen = []
    for number, ((kernel, mode), points) in enumerate(sorted(series(kernels).items())):
        sizes = [p[0] for p in points]
        colour = COLOURS[number % len(COLOURS)]
        ax.fill_between(sizes, [p[1] for p in points], [p[3] for p in points], color=colour, alpha=0.18, linewidth=0)
        ax.plot(sizes, [p[2] for p in points], "o-", color=colour, label=f"{kernel} ({mode})")
        seen += [p[2] for p in points]
    extra = (
        ("probe: the bytes moved, nothing else", line_of(kernels, "probe_us"), "#303030", "--"),
        ("peer (Triton)", peer_line(kernels, peers), "#c02020", "-."),
        ("floor: an empty launch", line_of(kernels, "floor_us"), "#909090", ":"),
    )
    for label, points, colour, style in extra:
        if points:
            ax.plot([p[0] for p in points], [p[1] for p in points], color=colour, linestyle=style, marker=".", label=label)
            seen += [p[1] for p in points]
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    log_axis(ax.xaxis, {size_of(row) for row in kernels}, 2)
    return seen


def grid_of(panels):
    columns = 1 if len(panels) == 1 else 2
    return -(-len(panels) // columns), columns


def finish(figure, axes, path):
    """One legend for all panels, below them."""
    handles = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=2, fontsize=8.5)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_times(path, op, rows, context, peers, what):
    """Time against size, a panel per remaining problem."""
    panels = {}
    for row in rows:
        panels.setdefault(panel_of(row), []).append(row)
    panels = {panel: panels[panel] for panel in sorted(panels, key=natural)}
    lines, columns = grid_of(panels)
    figure, grid = plt.subplots(lines, columns, figsize=(1.2 + 4.2 * columns, 1.5 + 2.7 * lines), squeeze=False,
                                layout="constrained", sharey=True)
    axes = list(grid.flat)
    for ax in axes[len(panels):]:
        ax.remove()
    seen = []
    for ax, (panel, members) in zip(axes, panels.items()):
        seen += draw_times(ax, members, peers)
        ax.set_title(panel_title(panel), loc="left")
        ax.set_xlabel(SIZE[op][1])
    for ax in axes[:len(panels)]:
        log_axis(ax.yaxis, seen, 10)
        ax.tick_params(labelleft=True)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel("microseconds a launch")
    figure.suptitle(f"{op} on {device_text(context)}{what}: median time, 20th to 80th percentile shaded", fontsize=10.5)
    finish(figure, axes[:len(panels)], path)


def plot_bandwidth(path, op, rows, context, what):
    """GB/s against bytes: kernels by panel, with the ceilings that were measured beside them."""
    figure, ax = plt.subplots(figsize=(7.6, 5.2), layout="constrained")
    kernels = [row for row in rows if is_kernel(row)]
    panels = sorted({panel_of(row) for row in kernels}, key=natural)
    names = sorted({(row["kernel"], row["mode"]) for row in kernels})
    markers = "osD^vP*X"
    for number, (kernel, mode) in enumerate(names):
        for which, panel in enumerate(panels):
            points = sorted((row["bytes"] / 1e6, row["bytes"] / percentile(row["samples_us"], 0.5) * 1e-3)
                            for row in kernels
                            if (row["kernel"], row["mode"]) == (kernel, mode) and panel_of(row) == panel)
            if points:
                ax.plot([p[0] for p in points], [p[1] for p in points], markers[which % len(markers)] + "-",
                        color=COLOURS[number % len(COLOURS)], alpha=0.9,
                        label=f"{kernel} ({mode}), {panel_title(panel)}")
    draw_ceilings(ax, rows, context)
    ax.set_xscale("log")
    ax.set_ylim(bottom=0)
    log_axis(ax.xaxis, [row["bytes"] / 1e6 for row in kernels], 10)
    ax.set_xlabel("megabytes a launch must move")
    ax.set_ylabel("GB/s (least bytes / median time)")
    figure.suptitle(f"{op} on {device_text(context)}{what}: achieved bandwidth and the ceilings of the same run",
                    fontsize=10.5)
    finish(figure, [ax], path)


def draw_ceilings(ax, rows, context):
    for kernel, (label, colour, style) in CEILINGS.items():
        draw_ceiling(ax, [row for row in rows if row["kernel"] == kernel], label, colour, style)
    movers = {}
    for row in rows:
        if row["kernel"].startswith("mover"):
            rate = row["bytes"] / percentile(row["samples_us"], 0.5) * 1e-3
            movers[row["bytes"]] = max(rate, movers.get(row["bytes"], 0))
    points = sorted((size / 1e6, rate) for size, rate in movers.items())
    if points:
        ax.plot([p[0] for p in points], [p[1] for p in points], "--", color="#303030", linewidth=1.2,
                label="the operator's byte mover")
    for key, label, style in (("device_copy_gbs", "device copy", "-"), ("device_read_gbs", "read", ":")):
        if key in context:
            ax.axhline(float(context[key]), color="#404040", linestyle=style, linewidth=1.2, label=label)


def draw_ceiling(ax, rows, label, colour, style):
    points = sorted((row["bytes"] / 1e6, row["bytes"] / percentile(row["samples_us"], 0.5) * 1e-3) for row in rows)
    if points:
        ax.plot([p[0] for p in points], [p[1] for p in points], color=colour, linestyle=style, linewidth=1.2, label=label)


def plot_document(folder, name, document, peers):
    """All plots of one kept file; returns the paths."""
    paths = []
    groups = {}
    for row in document["rows"]:
        warm = row["mode"] == "cpu-warm"
        groups.setdefault((row["operator"], warm), []).append(row)
    for (op, warm), rows in sorted(groups.items()):
        if op not in SIZE or len({size_of(row) for row in rows}) < 2:
            continue
        what = ", in cache" if warm else ""
        stem = f"{folder}/{name}-{op}{'-warm' if warm else ''}"
        plot_times(f"{stem}-time.svg", op, rows, document["context"],
                   [peer for peer in peers if peer["operator"] == op], what)
        plot_bandwidth(f"{stem}-bandwidth.svg", op, rows, document["context"], what)
        paths += [f"{stem}-time.svg", f"{stem}-bandwidth.svg"]
    return paths
