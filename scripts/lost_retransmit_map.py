#!/usr/bin/env python3
"""Where do all three rows of the post of October 2007 come out at once?

    ackwright run experiments/lost-retransmit-search.toml --out DIR
    scripts/lost_retransmit_map.py DIR [--across burst] [--down congestion_control] [--svg FILE]

Reads DIR/results.csv, prints the nearest points as a table, and draws a map over two axes of the sweep, each
cell being the nearest of all points there. How near a point is: the worst of its six figures (goodput and
timeouts of three kernels) in units of what is allowed, which is 10 % of what was published, and half a
timeout where that was none. It holds where that is at most 1.
"""

import argparse
import collections
import csv
import html
import itertools
import pathlib
import statistics

PUBLISHED = {"linux-2.6.22": (376, 26), "highest-sack": (481, 0), "skip-reported": (483, 0)}
GOODPUT = "goodput"
COUNT = "rto"
# The patched kernels with 2.6.22's fast path, and without.
VARIANTS = ("", ", walks all")
SHARE = 0.1
ABOUT_NONE = 0.5


def read(path):
    """The mean of each metric by circumstances and kernel."""
    values = collections.defaultdict(list)
    with open(path, newline="") as file:
        rows = csv.DictReader(file)
        axes = [name for name in rows.fieldnames if name.startswith("point.")]
        axes.remove("point.kernel")
        for row in rows:
            if row["scope"] == "total" and row["metric"] in (GOODPUT, COUNT):
                point = tuple(row[axis] for axis in axes)
                values[point, row["point.kernel"], row["metric"]].append(float(row["value"]))
    means = collections.defaultdict(dict)
    for (point, kernel, metric), found in values.items():
        means[point][kernel, metric] = statistics.fmean(found)
    return [axis.removeprefix("point.") for axis in axes], means


def worst(figures):
    """The worst of the figures, in units of what is allowed; `figures`: measured and published."""
    return max(
        abs(measured - published) / (SHARE * published) if published else measured / ABOUT_NONE
        for measured, published in figures
    )


def nearest(means):
    """With which patched kernels a point is nearest: how near, and its figures."""
    candidates = []
    for variant in VARIANTS:
        kernels = [kernel + (variant if published[1] == 0 else "") for kernel, published in PUBLISHED.items()]
        wanted = [(kernel, metric) for kernel in kernels for metric in (GOODPUT, COUNT)]
        if all(key in means for key in wanted):
            measured = [means[key] for key in wanted]
            pairs = zip(measured, itertools.chain(*PUBLISHED.values()))
            candidates.append((worst(pairs), variant, measured))
    return min(candidates, default=None)


def table(axes, found, lines):
    """The nearest points in Markdown."""
    kernels = " | ".join(f"{kernel} ({mbit} / {count})" for kernel, (mbit, count) in PUBLISHED.items())
    print(f"| {' | '.join(axes)} | {kernels} | patched | worst |")
    print("|" + "---|" * (len(axes) + 5))
    for point, (distance, variant, measured) in found[:lines]:
        figures = " | ".join(
            f"{goodput:.0f} / {timeouts:.1f}" for goodput, timeouts in zip(measured[::2], measured[1::2])
        )
        kept = "fast path" if not variant else "walk all"
        print(f"| {' | '.join(point)} | {figures} | {kept} | {distance:.1f} |")


def colour(distance):
    """Green where all hold, then paler the further away."""
    if distance <= 1:
        return "#2a9d4a"
    share = min((distance - 1) / 9, 1)
    return f"rgb({int(255 - 15 * share)},{int(225 - 120 * share)},{int(150 - 60 * share)})"


def svg(cells, across, down):
    """A map: a cell for each step of two axes."""
    columns = list(dict.fromkeys(column for column, _ in cells))
    rows = list(dict.fromkeys(row for _, row in cells))
    width, height, left, top = 84, 34, 150, 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width * len(columns) + 20}"'
        f' height="{top + height * len(rows) + 16}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="10" y="18">The worst of six figures, in tenths of the published one (1: all hold)</text>',
        f'<text x="10" y="{top - 10}">{html.escape(down)} / {html.escape(across)}</text>',
    ]
    for index, column in enumerate(columns):
        x = left + width * index + width // 2
        parts.append(f'<text x="{x}" y="{top - 10}" text-anchor="middle">{html.escape(column)}</text>')
    for index, row in enumerate(rows):
        y = top + height * index
        parts.append(f'<text x="10" y="{y + 21}">{html.escape(row)}</text>')
        for place, column in enumerate(columns):
            distance = cells.get((column, row))
            if distance is None:
                continue
            x = left + width * place
            parts.append(
                f'<rect x="{x}" y="{y}" width="{width - 2}" height="{height - 2}" fill="{colour(distance)}"/>'
                f'<text x="{x + width // 2}" y="{y + 21}" text-anchor="middle">{distance:.1f}</text>'
            )
    return "\n".join([*parts, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("--across", default="burst")
    parser.add_argument("--down", default="congestion_control")
    parser.add_argument("--lines", type=int, default=10)
    parser.add_argument("--svg", type=pathlib.Path)
    args = parser.parse_args()
    axes, means = read(args.dir / "results.csv")
    found = [(point, best) for point in means if (best := nearest(means[point]))]
    found.sort(key=lambda entry: entry[1][0])
    table(axes, found, args.lines)
    holding = sum(best[0] <= 1 for _, best in found)
    print(f"\n{holding} of {len(found)} points hold all three rows.")
    if args.svg:
        cells = {}
        for point in means:
            step = dict(zip(axes, point))
            best = nearest(means[point])
            if best:
                place = (step[args.across], step[args.down])
                cells[place] = min(best[0], cells.get(place, best[0]))
        args.svg.write_text(svg(cells, args.across, args.down))


if __name__ == "__main__":
    main()
