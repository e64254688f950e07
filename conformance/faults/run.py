"""Runs the cells and prints their table."""

import os
import time

from . import cells, damage
from .load import KINDS, PreparedData
from .resources import Unavailable

CELLS = (cells.Kill, cells.Term, cells.Stop, cells.Full, cells.Inodes, cells.Files, cells.Memory, damage.Flip)
COLUMNS = ("cell", "faults", "tries", "acknowledged", "refused", "unknown", "restarts", *KINDS, "recovery s", "seconds")


def run(program, folder, password, only):
    """Runs all cells, or the one whose name is `only`. Returns the numbers of passed, failed and skipped cells."""
    is_long = bool(os.environ.get("DOUBLET_SOAK"))
    seed = os.environ.get("DOUBLET_SEED") or (str(time.time_ns() % 1_000_000) if is_long else "1")
    print(f"faults: DOUBLET_SEED={seed}", flush=True)
    chosen = [cell for cell in CELLS if only in ("", cell.name)]
    if not chosen:
        raise SystemExit(f"faults: there is no cell {only}; the cells are {', '.join(cell.name for cell in CELLS)}")
    prepared = PreparedData(program, folder, password)
    skipped, rows = 0, []
    try:
        if prepared.bridge.reason:
            print(f"faults: the native protocol is skipped, {prepared.bridge.reason}")
            skipped += 1
        prepared.prepare()
        for kind in chosen:
            cell, begin = kind(prepared, seed, is_long), time.monotonic()
            try:
                cell.run()
            except Unavailable as reason:
                print(f"faults: {cell.name} is skipped, {reason}", flush=True)
                skipped += 1
                continue
            except (RuntimeError, TimeoutError) as error:
                cell.findings.add("wrong", str(error))
            rows.append(row(cell, time.monotonic() - begin))
            print(f"faults: {', '.join(f'{column} {count}' for column, count in zip(COLUMNS, rows[-1]))}", flush=True)
    finally:
        prepared.close()
    print_table(rows)
    failed = sum(any(int(line[COLUMNS.index(kind)]) for kind in KINDS) for line in rows)
    return len(rows) - failed, failed, skipped


def row(cell, seconds):
    """Returns the line of a cell in the table."""
    counts = cell.tally | {"cell": cell.name, "faults": cell.done, "restarts": cell.restarts,
                           "recovery s": f"{cell.recovery_s:.1f}", "seconds": f"{seconds:.1f}"}
    return [str(counts.get(column, cell.findings.counts[column])) for column in COLUMNS]


def print_table(rows):
    """Prints the table."""
    widths = [max(len(line[index]) for line in [COLUMNS, *rows]) for index in range(len(COLUMNS))]
    for line in [COLUMNS, *rows]:
        print("  ".join(text.ljust(width) if index == 0 else text.rjust(width) for index, (text, width) in enumerate(zip(line, widths))))
