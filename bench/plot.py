# SPDX-License-Identifier: GPL-2.0
"""The plot of bench/table.py, as SVG"""
from math import log

WIDTH, HEIGHT = 960, 570
GREY, BLUE, ORANGE, BROWN, TEXT = "#9aa0a6", "#3b73b9", "#e07b39", "#8f4a1e", "#24292f"


class Svg:
    def __init__(self):
        self.items = [f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']

    def text(self, x, y, text, anchor="start", size=12, color=TEXT, weight="normal"):
        self.items.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
                          f'font-weight="{weight}" fill="{color}">{text}</text>')

    def rect(self, x, y, width, height, color):
        self.items.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>')

    def line(self, points, color, width=1):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.items.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}"/>')

    def dot(self, x, y, color):
        self.items.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>')

    def __str__(self):
        return (f'<!-- SPDX-License-Identifier: GPL-2.0; made by make bench -->\n'
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
                f'height="{HEIGHT}" font-family="sans-serif">\n' + "\n".join(self.items) + "\n</svg>\n")


def bars(svg, left, top, title, groups):
    """Draw groups of bars: each has a name, each bar a figure and a colour"""
    start, width, height = left + 130, 230, 13
    scale = width / max(figure for _, group in groups for figure, _ in group)
    svg.text(left, top, title, weight="bold")
    y = top + 14
    for name, group in groups:
        svg.text(start - 8, y + height * len(group) / 2 + 4, name, "end")
        for figure, color in group:
            svg.rect(start, y, figure * scale, height - 2, color)
            svg.text(start + figure * scale + 5, y + height - 4, f"{figure:,.0f}", size=10)
            y += height
        y += 10


def curves(svg, left, top, title, curves):
    """Draw lines of points over a logarithmic axis from 1 to 4096"""
    width, height = 330, 190
    high = max(figure for _, points, _ in curves for _, figure in points)
    unit = next(u for u in (1000, 2000, 5000, 10000, 20000) if high / u <= 5)
    top_figure = (int(1.1 * high / unit) + 1) * unit

    def place(nr, figure):
        return left + 60 + width * log(nr, 4096), top + 20 + height * (1 - figure / top_figure)

    svg.text(left, top, title, weight="bold")
    for figure in range(0, top_figure + 1, unit):
        y = place(1, figure)[1]
        svg.line([(left + 60, y), (left + 60 + width, y)], "#d8dee4")
        svg.text(left + 54, y + 4, f"{figure:,}", "end", 10)
    for name, points, color in curves:
        svg.line([place(*point) for point in points], color, 2)
        for point in points:
            svg.dot(*place(*point), color)
        x, y = place(*points[-1])
        svg.text(x, y - 7, name, "end", 11, color)
    for nr, _ in curves[0][1]:
        svg.text(place(nr, 0)[0], top + height + 36, f"{nr:,}", "middle", 10)


def plot(base, ours):
    svg = Svg()
    svg.text(24, 32, "Persistent perf events: instructions", size=16, weight="bold")
    for x, color, name in ((360, GREY, "base"), (430, BLUE, "with the series"), (560, ORANGE, "persistent")):
        svg.rect(x, 22, 11, 11, color)
        svg.text(x + 16, 32, name)

    hot = [(name, [(base[f"{key}-ordinary"], GREY), (ours[f"{key}-ordinary"], BLUE),
                   (ours[f"{key}-persistent"], ORANGE)])
           for key, name in (("sample", "tracepoint sample"), ("overflow", "hardware overflow"),
                             ("switch1", "switch, 1 event"), ("switch8", "switch, 8 events"))
           if f"{key}-ordinary" in base]
    bars(svg, 24, 70, "What runs all the time", hot)
    life = [("perf_event_open", [(base["open"], GREY), (ours["open"], BLUE)]),
            ("eventfd", [(base["eventfd"], GREY), (ours["eventfd"], BLUE)]),
            ("reopen", [(ours["reopen-1"], ORANGE)]), ("detach an instance", [(ours["instance-1"], ORANGE)]),
            ("detach an id", [(ours["id-1"], ORANGE)])]
    bars(svg, 490, 70, "What happens now and then, with close or attach", life)

    numbers = sorted(int(key.split("-")[1]) for key in ours if key.startswith("reopen-"))
    for left, title, keys in ((24, "Over the number of ids", ("reopen", "instance")), (490, "A new one", ("id",))):
        names = {"reopen": "reopen + close", "instance": "detach + attach an instance",
                 "id": "detach + attach an id, with sysfs"}
        curves(svg, left, 310, title, [(names[key], [(nr, ours[f"{key}-{nr}"]) for nr in numbers], color)
                                       for key, color in zip(keys, (ORANGE, BROWN))])
    return str(svg)
