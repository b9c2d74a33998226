"""SVG plots of kept results: time against tokens or rows, and bandwidth against bytes with the ceilings."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator  # noqa: E402

from results import MODES, fields_of, is_kernel, natural, percentile, without  # noqa: E402

# What a problem's size is; everything else of the line tells panels apart.
SIZE = {"attn_res": ("t", "tokens"), "kda_decode": ("b", "rows (sequences)")}
LATE = ("stable",)  # fields that belong to a launch mode, not to the problem
UNTOLD = ("r",)  # fields that no panel's title needs
DEFAULTS = {"state": "f32", "dtype": "bf16", "delta": "1", "norm": "1", "gate": "safe", "layout": "sd"}
COLOURS = ("#0060b0", "#d1570a", "#3a8f3a", "#8a3fa0", "#a08000", "#b0305a", "#208080", "#707070")
CEILINGS = {
    "ceiling_read": ("read", "#a8a8a8", ":"),
    "ceiling_in_place": ("in-place update", "#808080", (0, (6, 2))),
    "ceiling_copy_nt": ("non-temporal copy", "#303030", "-"),
    "ceiling_copy": ("plain copy", "#808080", "-."),
}

plt.rcParams.update({
    "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
    "grid.color": "#e4e4e4", "grid.linewidth": 0.7, "lines.linewidth": 1.6, "lines.markersize": 4.5,
    "legend.frameon": False, "svg.hashsalt": "silt", "figure.facecolor": "white",
})


# ---------------------------------------------------------------- rows

def panel_of(row):
    """What one panel holds: the problem without its size."""
    return without(row["problem"], SIZE[row["operator"]][0], *LATE)


def size_of(row):
    return int(fields_of(row["problem"])[SIZE[row["operator"]][0]])


def is_cpu(row):
    return row["mode"].startswith("cpu")


def typical_us(row):
    """The figure that is drawn: the median; on a CPU, which others disturb, the 20th percentile."""
    return percentile(row["samples_us"], 0.2 if is_cpu(row) else 0.5)


def bandwidth(row):
    return row["bytes"] / typical_us(row) * 1e-3


def lines_of(rows):
    """{(kernel, mode): rows sorted by size}, fixed order: by kernel, then by mode as the protocol lists them."""
    found = {}
    for row in sorted(rows, key=size_of):
        if is_kernel(row):
            found.setdefault((row["kernel"], row["mode"]), []).append(row)
    return dict(sorted(found.items(), key=lambda item: (item[0][0], MODES.index(item[0][1]))))


def counter_line(rows, key):
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


def bandwidth_line(rows):
    """[(megabytes, GB/s)]; the fastest where several rows move as many bytes."""
    best = {}
    for row in rows:
        best[row["bytes"]] = max(bandwidth(row), best.get(row["bytes"], 0))
    return sorted((size / 1e6, rate) for size, rate in best.items())


# ---------------------------------------------------------------- words

def titles(panels):
    """Panel -> its title, and the words that all share: "n = 8" under a common "d = 7168"."""
    fields = {panel: {key: value for key, value in fields_of(panel).items() if key not in UNTOLD} for panel in panels}
    keys = sorted({key for own in fields.values() for key in own}, key=lambda key: list(DEFAULTS).index(key)
                  if key in DEFAULTS else -1)
    value = {panel: {key: own.get(key, DEFAULTS.get(key, "-")) for key in keys} for panel, own in fields.items()}
    first = next(iter(value.values()))
    common = [key for key in keys if all(own[key] == first[key] for own in value.values())]

    def text(own, wanted):
        return ", ".join(f"{key} = {own[key]}" for key in wanted)

    told = {panel: text(own, [key for key in keys if key not in common]) for panel, own in value.items()}
    return told, text(first, common)


def plain(value, _=None):
    """Numbers as people write them: 0.5, 20, 4096."""
    return f"{value:g}"


def device_text(context):
    name = context.get("device", "unknown device").split(" (")[0]
    if context.get("driver", "none") != "none":
        return name
    return f"{name}, {context['threads']} thread{'' if context['threads'] == '1' else 's'}"


# ---------------------------------------------------------------- axes

def size_axis(axis, sizes):
    """Every size has a tick, and a number where the one above leaves room for it."""
    numbers = []
    for size in sorted(sizes, reverse=True):
        if not numbers or size * 2.9 <= numbers[-1]:
            numbers.append(size)
    axis.set_major_locator(FixedLocator(sorted(numbers)))
    axis.set_minor_locator(FixedLocator(sorted(set(sizes) - set(numbers))))
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_formatter(NullFormatter())


def log_axis(axis, values):
    """1-2-5 steps over a short range, decades over a long one."""
    axis.set_major_formatter(FuncFormatter(plain))
    axis.set_minor_locator(NullLocator())
    low, high = min(values) / 1.3, max(values) * 1.3
    steps = [step for step in (m * 10.0**e for e in range(-4, 8) for m in (1, 2, 5)) if low <= step <= high]
    if len(steps) > 8:
        axis.set_minor_locator(FixedLocator([m * 10.0**e for e in range(-4, 8) for m in range(2, 10)]))
        axis.set_minor_formatter(NullFormatter())
        steps = [10.0**e for e in range(-4, 8)]
    axis.set_major_locator(FixedLocator(steps))


def colour_of(number):
    return COLOURS[number % len(COLOURS)]


def draw_line(ax, points, label, colour, style, **options):
    if points:
        ax.plot([p[0] for p in points], [p[1] for p in points], color=colour, linestyle=style, label=label, **options)
    return [p[1] for p in points]


def draw_times(ax, rows, peers, number_of):
    """Time of every kernel and mode, with probe, peer and floor; returns the values, for the axis."""
    seen = []
    for key, members in lines_of(rows).items():
        sizes = [size_of(row) for row in members]
        colour = colour_of(number_of[key])
        high = 0.5 if is_cpu(members[0]) else 0.8
        ax.fill_between(sizes, [percentile(row["samples_us"], 0.2) for row in members],
                        [percentile(row["samples_us"], high) for row in members], color=colour, alpha=0.18, linewidth=0)
        seen += draw_line(ax, [(size_of(row), typical_us(row)) for row in members], f"{key[0]} ({key[1]})", colour, "-",
                          marker="o")
    kernels = [row for row in rows if is_kernel(row)]
    thin = {"linewidth": 1.2, "marker": "."}
    seen += draw_line(ax, peer_line(kernels, peers), "peer: plain Triton", "#c02020", "-.", **thin)
    seen += draw_line(ax, counter_line(kernels, "probe_us"), "probe: the bytes moved, nothing else", "#303030", "--",
                      **thin)
    seen += draw_line(ax, counter_line(kernels, "floor_us"), "floor: an empty launch", "#909090", ":", **thin)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    size_axis(ax.xaxis, {size_of(row) for row in kernels})
    ax.set_xlabel(SIZE[rows[0]["operator"]][1])
    return seen


def draw_bandwidth(ax, rows, context, number_of):
    """Bandwidth of every kernel and mode with the ceilings of the same run; returns the values."""
    seen = []
    for key, members in lines_of(rows).items():
        seen += draw_line(ax, bandwidth_line(members), f"{key[0]} ({key[1]})", colour_of(number_of[key]), "-", marker="o")
    thin = {"linewidth": 1.2}
    seen += draw_line(ax, bandwidth_line(row for row in rows if row["kernel"].startswith("mover")),
                      "the operator's byte mover", "#303030", "--", **thin)
    for kernel, style in CEILINGS.items():
        seen += draw_line(ax, bandwidth_line(row for row in rows if row["kernel"] == kernel), *style, **thin)
    for name, label, style in (("device_copy_gbs", "device copy", "-"), ("device_read_gbs", "device read", ":")):
        if name in context:
            ax.axhline(float(context[name]), color="#404040", linestyle=style, linewidth=1.2, label=label)
            seen.append(float(context[name]))
    megabytes = [row["bytes"] / 1e6 for row in rows if is_kernel(row)]
    ax.set_xscale("log")
    log_axis(ax.xaxis, megabytes)
    ax.set_xlim(min(megabytes) / 1.3, max(megabytes) * 1.3)
    ax.set_xlabel("megabytes a launch must move")
    return seen


# ---------------------------------------------------------------- figures

def figure_of(path, rows, heading, y_label, draw, scale):
    """A panel per problem, one legend below them. `draw` fills a panel; `scale` sets the shared y axis."""
    panels = {}
    for row in rows:
        panels.setdefault(panel_of(row), []).append(row)
    panels = {panel: panels[panel] for panel in sorted(panels, key=natural)}
    columns = 1 if len(panels) == 1 else 2
    lines = -(-len(panels) // columns)
    figure, grid = plt.subplots(lines, columns, figsize=(3.2 + 3.6 * columns, 1.7 + 2.7 * lines), squeeze=False,
                                layout="constrained", sharey=True)
    axes = list(grid.flat)
    for ax in axes[len(panels):]:
        ax.remove()
    axes = axes[:len(panels)]
    number_of = {key: number for number, key in enumerate(lines_of(rows))}
    told, common = titles(list(panels))
    seen = []
    for ax, (panel, members) in zip(axes, panels.items()):
        seen += draw(ax, members, number_of)
        ax.set_title(told[panel], loc="left")
    for ax in axes:
        scale(ax, seen)
        ax.tick_params(labelleft=True)
        if ax.get_subplotspec().is_first_col():
            ax.set_ylabel(y_label)
    figure.suptitle(heading(common), fontsize=10.5)
    handles = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels()):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns + 1, fontsize=8.5)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_times(path, op, rows, context, peers, what):
    drawn = "20th percentile, shaded up to the median" if is_cpu(rows[0]) else "median, 20th to 80th percentile shaded"
    figure_of(path, rows, lambda common: f"{op} ({common}) on {device_text(context)}{what}: time; {drawn}",
              "microseconds a launch", lambda ax, members, number_of: draw_times(ax, members, peers, number_of),
              lambda ax, seen: log_axis(ax.yaxis, seen))


def plot_bandwidth(path, op, rows, context, what):
    drawn = "20th percentile of the time" if is_cpu(rows[0]) else "median time"

    def scale(ax, seen):
        ax.set_ylim(0, max(seen) * 1.05)

    figure_of(path, rows, lambda common: f"{op} ({common}) on {device_text(context)}{what}: bandwidth and ceilings",
              f"GB/s (least bytes / {drawn})",
              lambda ax, members, number_of: draw_bandwidth(ax, members, context, number_of), scale)


def plot_document(folder, name, document, peers):
    """All plots of one kept file; returns the paths."""
    paths = []
    groups = {}
    for row in document["rows"]:
        if row["operator"] in SIZE:
            groups.setdefault((row["operator"], row["mode"] == "cpu-warm"), []).append(row)
    for (op, warm), rows in sorted(groups.items()):
        if len({size_of(row) for row in rows}) < 2:
            continue  # no curve
        what = ", in cache" if warm else ""
        stem = f"{folder}/{name}-{op}{'-warm' if warm else ''}"
        plot_times(f"{stem}-time.svg", op, rows, document["context"],
                   [peer for peer in peers if peer["operator"] == op], what)
        plot_bandwidth(f"{stem}-bandwidth.svg", op, rows, document["context"], what)
        paths += [f"{stem}-time.svg", f"{stem}-bandwidth.svg"]
    return paths
