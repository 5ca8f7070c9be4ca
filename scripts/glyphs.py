#!/usr/bin/env python3
"""Writes the outlines of characters that pictures as PNG are drawn with: crates/render/src/plot/raster/roboto.txt.

  glyphs.py FONT.ttf >crates/render/src/plot/raster/roboto.txt

It needs fonttools (pip install fonttools), and Roboto-Regular.ttf, which is in Debian's fonts-roboto-unhinted.
"""

import sys

from fontTools.pens.recordingPen import DecomposingRecordingPen
from fontTools.ttLib import TTFont

# ASCII and Latin, Greek, Cyrillic, and what text about times and numbers has besides.
RANGES = [(0x20, 0x7E), (0xA0, 0x17F), (0x386, 0x3CE), (0x401, 0x451), (0x2010, 0x2026), (0x2030, 0x2033), (0x20AC, 0x20AC), (0x2212, 0x2212)]
UNITS = 1000
# Distance of a curve from its polygon, units: a tenth of a pixel at most.
TOLERANCE = 4

HEAD = """\
# Outlines of Roboto Regular 2.138, Copyright 2011 Google Inc., under the Apache License 2.0 (LICENSE-APACHE); made by scripts/glyphs.py.
# Each line: a character, or 0 for all others; how far it advances; its polygons, of points x,y above the baseline. An em has 1000 units.
"""


def flattened(a, b, c):
    """The points of a quadratic curve after its first one."""
    away = max(abs(a[i] - 2 * b[i] + c[i]) for i in (0, 1)) / 4
    steps = max(1, round((away / TOLERANCE) ** 0.5 + 0.49))
    for step in range(1, steps + 1):
        t = step / steps
        yield tuple((1 - t) ** 2 * a[i] + 2 * t * (1 - t) * b[i] + t * t * c[i] for i in (0, 1))


def middle(a, b):
    return tuple((a[i] + b[i]) / 2 for i in (0, 1))


def contours(glyphs, name, scale):
    pen = DecomposingRecordingPen(glyphs)
    glyphs[name].draw(pen)
    polygons = []
    for operation, points in pen.value:
        points = [point and (point[0] * scale, point[1] * scale) for point in points]
        if operation == "moveTo":
            polygons.append(points)
        elif operation == "lineTo":
            polygons[-1] += points
        elif operation == "qCurveTo":
            *controls, end = points
            if end is None:
                # No point of this contour is on the curve.
                end = middle(controls[-1], controls[0])
                polygons.append([end])
            # Between two points that are not on the curve there is one that is.
            ends = [middle(a, b) for a, b in zip(controls, controls[1:])] + [end]
            for control, to in zip(controls, ends):
                polygons[-1] += flattened(polygons[-1][-1], control, to)
    return polygons


def line(code, name, glyphs, scale):
    polygons = [" ".join(f"{x:.0f},{y:.0f}" for x, y in polygon) for polygon in contours(glyphs, name, scale)]
    return f"{code:x} {glyphs[name].width * scale:.0f} {' / '.join(polygons)}".rstrip()


def main():
    font = TTFont(sys.argv[1])
    glyphs, names = font.getGlyphSet(), font.getBestCmap()
    scale = UNITS / font["head"].unitsPerEm
    print(HEAD, end="")
    print(line(0, ".notdef", glyphs, scale))
    for first, last in RANGES:
        for code in range(first, last + 1):
            if code in names:
                print(line(code, names[code], glyphs, scale))


main()
