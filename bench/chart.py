# SPDX-License-Identifier: Apache-2.0
"""Charts as SVG, written without a library: rates of copies by size, rates of programs by arm."""

import html
import math

import arms

COLOURS = {"pinned": "#4878a8", "driver": "#c0504d", "plain": "#c0504d", "plain-async": "#d98880",
           "ours": "#2e8b57", "ours-now": "#43a06c", "ours-later": "#43a06c", "ours-async": "#58ab7c", "hand": "#4878a8",
           "ours+hand": "#6ba58a",
           "jemalloc": "#a0a0a0", "tcmalloc": "#b8b8b8", "numactl": "#cccccc"}
STYLE = ("<style>text{font:12px sans-serif;fill:#333}.title{font-weight:bold}.grid{stroke:#e4e4e4}"
         ".axis{stroke:#888}</style>")
NAMES = {"ours": "pageable, libgpufeed", "driver": "pageable, driver", "pinned": "pinned by hand"}


def text(x, y, words, anchor="start", kind=""):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={chr(34)}{kind}{chr(34)}" if kind else ""}>'
            f"{html.escape(words)}</text>")


def line(x1, y1, x2, y2, kind):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def document(width, height, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}">\n<rect width="{width}" height="{height}" fill="white"/>\n{STYLE}\n'
            + "\n".join(parts) + "\n</svg>\n")


def nice_top(value):
    step = 10 ** math.floor(math.log10(value))
    return next(step * factor for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * factor >= value)


def panel(left, top, wide, high, title, series, most):
    """Draws one panel of series {arm: [(bytes, GB/s)]}."""
    sizes = sorted({size for points in series.values() for size, _ in points})
    parts = [text(left, top - 10, title, kind="title")]

    def at(size, speed):
        span = math.log2(sizes[-1]) - math.log2(sizes[0]) or 1
        return (left + wide * (math.log2(size) - math.log2(sizes[0])) / span, top + high * (1 - speed / most))
    for step in range(6):
        x, y = at(sizes[0], most * step / 5)
        parts += [line(x, y, left + wide, y, "grid"), text(left - 6, y + 4, f"{most * step / 5:g}", "end")]
    for index, size in enumerate(sizes):
        if index % 2 == 0:
            parts.append(text(at(size, 0)[0], top + high + 18, arms.size_name(size), "middle"))
    for arm, points in series.items():
        where = [at(*point) for point in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in where)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[arm]}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[arm]}"/>' for x, y in where]
    parts.append(line(left, top + high, left + wide, top + high, "axis"))
    return parts


def copies(cases):
    chosen = [case for case in cases if case["part"] == "sizes" and not case.get("hot")]
    most = nice_top(max((case["medians"][arm]["GB/s"] for case in chosen for arm in NAMES), default=1))
    parts = []
    for number, (way, title) in enumerate((("h2d", "Host to device, GB/s"), ("d2h", "Device to host, GB/s"))):
        series = {arm: [(case["bytes"], case["medians"][arm]["GB/s"]) for case in chosen if case["way"] == way]
                  for arm in ("pinned", "driver", "ours")}
        series = {arm: points for arm, points in series.items() if points}
        if series:
            parts += panel(50 + number * 450, 60, 390, 240, title, series, most)
    for number, arm in enumerate(("pinned", "ours", "driver")):
        x = 60 + number * 190
        parts += [f'<rect x="{x}" y="12" width="14" height="14" fill="{COLOURS[arm]}"/>', text(x + 20, 24, NAMES[arm])]
    return document(920, 340, parts)


def programs(cases):
    """Draws one group of bars for each program. Bars are relative to `plain` or, if it was not measured,
    to `plain-async` or `hand`."""
    parts, y = [], 20
    for case in cases:
        unit = f"{case['unit']}/s"
        arms_here = [arm for arm in COLOURS if arm in case["medians"]]
        if not arms_here:
            continue
        base = next((arm for arm in ("plain", "plain-async", "hand") if arm in arms_here), None)
        most = max(case["medians"][arm][unit] for arm in arms_here)
        parts.append(text(20, y + 12, case["case"], kind="title"))
        y += 20
        for arm in arms_here:
            value = case["medians"][arm][unit]
            width = 460 * value / most
            part = f" ({value / case['medians'][base][unit]:.2f})" if base else ""
            parts += [text(130, y + 12, arm, "end"),
                      f'<rect x="140" y="{y}" width="{width:.1f}" height="16" fill="{COLOURS[arm]}"/>',
                      text(146 + width, y + 12, f"{value:.4g} {unit}{part}")]
            y += 20
        y += 12
    return document(860, y + 8, parts)


CHARTS = {"h2d": ("copies.svg", copies), "train": ("programs.svg", programs)}
