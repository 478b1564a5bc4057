"""Rows side by side, and their picture."""

from itertools import combinations
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from edgellm.eval.picture import Point, scatter
from edgellm.eval.table import Row, best, measured, quality


def row(size: int, fits: bool = True, **found: float) -> Row:
    return Row("m", "f16", size, 4.0, 0, fits, **found)


def test_the_best_that_fits() -> None:
    rows = [row(3, perplexity=9.0), row(2, perplexity=8.0), row(1, False, perplexity=7.0)]
    assert quality(rows) == "perplexity" and best(rows) is rows[1]
    rows = [row(3, choice=0.5), row(2, choice=0.8), row(1, choice=0.8)]
    assert quality(rows) == "choice" and best(rows) is rows[2]
    assert best([row(1, reading=3.0)]) is None and best([row(1, False, kl=0.0)]) is None
    assert quality([row(1, kl=0.1, perplexity=2.0), row(1, perplexity=2.0)]) == "perplexity"
    assert measured([row(1, kl=0.1), row(1, writing=2.0)])[-2:] == ("kl", "writing")


numbers = st.floats(0, 1e12, allow_nan=False)


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8), st.booleans())
def test_any_points_are_drawn_inside_the_picture(
    values: list[tuple[float, float]], more_is_better: bool
) -> None:
    points = [Point(x, y, f"<{number}> & \x22") for number, (x, y) in enumerate(values)]
    root = ElementTree.fromstring(scatter(points, 'a "title"', "x", "y & y", more_is_better))
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == len(points)
    width, height = map(float, root.attrib["viewBox"].split()[2:])
    for circle in circles:
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert {point.label for point in points} <= set(texts)


def test_the_line_joins_what_nothing_beats() -> None:
    points = [Point(1, 5, "a"), Point(2, 6, "b"), Point(3, 1, "c")]
    for more_is_better, joined in ((False, 2), (True, 2)):
        root = ElementTree.fromstring(scatter(points, "t", "x", "y", more_is_better))
        [line] = [e for e in root.iter() if e.tag.endswith("polyline")]
        assert len(line.attrib["points"].split()) == joined
    with pytest.raises(ValueError, match="nothing to draw"):
        scatter([], "t", "x", "y", False)


def test_labels_keep_out_of_each_others_way() -> None:
    points = [Point(x, x / 10, f"a model of some name {x}") for x in (100, 101, 102, 103, 200)]
    root = ElementTree.fromstring(scatter(points, "t", "x", "y", False))
    labels = [e for e in root.iter() if (e.text or "").startswith("a model")]
    places = [(float(e.attrib["x"]), float(e.attrib["y"])) for e in labels]
    for (x, y), (other_x, other_y) in combinations(places, 2):
        assert abs(y - other_y) >= 14 or abs(x - other_x) > 150
