"""Turns what was measured into tables.

Place in the flow: `run.py` prints what comes from here.
In:  `windows[connections][server]` of a workload: one dictionary a window, in the order of the rounds.
Out: text, and the number of failed requests.
"""

from __future__ import annotations

import statistics

from workloads import CEILING, GOALS, Workload

MEASURES = {"cpu_us": "CPU a request", "p99_us": "p99", "rps": "req/s"}


def ratios(rounds: dict[str, list[dict]], server: str, base: str, key: str) -> list[float]:
    """A server's measure over that of `base`, round by round; none if either was not measured."""
    pairs = zip(rounds.get(server, []), rounds.get(base, []))
    return [mine[key] / other[key] for mine, other in pairs if other[key]]


def spread(values: list[float]) -> str:
    """`1.19 (1.15–1.22)`: median, least and most."""
    if not values:
        return "-"
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def table(rows: list[list[str]], left: int) -> str:
    """Columns as wide as they need to be: the first `left` flush left, the rest flush right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def load_table(windows: dict[int, dict[str, list[dict]]]) -> str:
    """One row for each server and number of connections: medians, and the ratios to the ceiling.

    `cores` is what the server got of the machine: where one got less than another, somebody else was busy.
    """
    head = ["connections", "server", "req/s", "p50 µs", "p99 µs", "CPU µs/req", "cores"]
    rows = [head + ["CPU × ceiling", "p99 × ceiling", "req/s × ceiling", "errors"]]
    for connections, rounds in windows.items():
        for server, each in rounds.items():
            median = {key: statistics.median(window[key] for window in each) for key in each[0]}
            rate = f"{median['rps']:,.0f}" if median["rps"] >= 1000 else f"{median['rps']:.1f}"
            rows.append(
                [str(connections), server, rate, f"{median['p50_us']:.0f}", f"{median['p99_us']:.0f}"]
                + [f"{median['cpu_us']:.1f}", f"{median['cores']:.2f}"]
                + [spread(ratios(rounds, server, CEILING, key)) for key in ("cpu_us", "p99_us", "rps")]
                + [str(sum(window["errors"] for window in each))]
            )
    return table(rows, left=2)


def goal_table(work: Workload, windows: dict[int, dict[str, list[dict]]]) -> str | None:
    """One row for each goal that was measured."""
    rows = [["ratio", "server", "connections", "measured", "goal", "", "then", ""]]
    for goal in (goal for goal in GOALS if goal.workload == work.name):
        for connections in goal.connections:
            values = ratios(windows.get(connections, {}), goal.server, goal.base, goal.measure)
            if values:
                ratio = statistics.median(values)
                rows.append(
                    [f"{MEASURES[goal.measure]} × {goal.base}", goal.server, str(connections), f"{ratio:.2f}"]
                    + goal.verdict(ratio, goal.limit)
                    + goal.verdict(ratio, goal.then)
                )
    return table(rows, left=2) if len(rows) > 1 else None


def report(work: Workload, measured: dict, seconds: int) -> int:
    """Prints a workload's tables; returns the number of failed requests."""
    windows = measured["windows"]
    each = [window for rounds in windows.values() for server in rounds.values() for window in server]
    count = max(len(server) for rounds in windows.values() for server in rounds.values())
    size = work.body.stat().st_size
    print(f"\n{work.name}: POST {work.path}, {size:,} bytes; medians of {count} windows of {seconds} s; ", end="")
    print("ratios window by window: median (least–most)\n")
    print(load_table(windows))
    if goals := goal_table(work, windows):
        print("\n" + goals)
    rows = [["server", "restart to first answer, ms", "resident after load, MiB"]]
    for server, first in measured["first_answer_ms"].items():
        rows.append([server, f"{first:.0f}", f"{measured['resident_mib'][server]:.0f}"])
    print("\n" + table(rows, left=1), flush=True)
    return sum(window["errors"] for window in each)
