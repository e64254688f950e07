"""Draws measured points as curves in one SVG image."""

import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 44, 52
COLORS = ("#1f6fb4", "#d1581c", "#2f8f46", "#8a4fa3")
TICKS = 5


def step_of(largest):
    """Returns the distance of about five round marks on an axis from 0 to `largest`."""
    rough = largest / TICKS
    power = 10 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough)


def draw(title, x_name, y_name, curves):
    """Returns an image of the points of each curve, whose axes begin at 0."""
    points = [point for found in curves.values() for point in found]
    x_max, y_max = (max(point[axis] for point in points) * 1.05 for axis in (0, 1))
    x_of = lambda x: LEFT + x / x_max * (WIDTH - LEFT - RIGHT)  # noqa: E731
    y_of = lambda y: HEIGHT - BOTTOM - y / y_max * (HEIGHT - TOP - BOTTOM)  # noqa: E731
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
           'font-family="sans-serif" font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    text = lambda x, y, anchor, words, more="": out.append(  # noqa: E731
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>')
    line = lambda x1, y1, x2, y2, color: out.append(  # noqa: E731
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}"/>')
    text(WIDTH / 2, 24, "middle", title, ' font-size="15"')
    for largest, place, is_x in ((x_max, x_of, True), (y_max, y_of, False)):
        step = step_of(largest)
        for mark in (step * number for number in range(int(largest / step) + 1)):
            at = place(mark)
            ends = (at, y_of(0), at, TOP) if is_x else (LEFT, at, WIDTH - RIGHT, at)
            line(*ends, "#ddd" if mark else "#000")
            label = f"{mark:,.10g}"
            text(at, y_of(0) + 18, "middle", label) if is_x else text(LEFT - 8, at + 4, "end", label)
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "middle", x_name)
    middle = (TOP + HEIGHT - BOTTOM) / 2
    text(18, middle, "middle", y_name, f' transform="rotate(-90 18 {middle:.1f})"')
    for number, (name, found) in enumerate(curves.items()):
        color = COLORS[number % len(COLORS)]
        places = [(x_of(x), y_of(y)) for x, y in found]
        out.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>' for x, y in places]
        line(LEFT + 16, TOP + 14 + 18 * number, LEFT + 40, TOP + 14 + 18 * number, color)
        text(LEFT + 46, TOP + 18 + 18 * number, "start", name)
    return "\n".join([*out, "</svg>", ""])
