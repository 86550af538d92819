# SPDX-License-Identifier: BSD-3-Clause
"""The report at the end: a table of time and size, and a line for each model."""

from dataclasses import dataclass


@dataclass
class Result:
    model: str
    backend: str
    seconds: float = 0.0
    failure: str = ""  # one sentence; empty where it worked
    n_pte: int = 0  # sizes in bytes; data files count with the program
    n_bpte: int = 0
    parts: str = ""  # "2 XnnpackBackend, 13 kernels"
    expected: str = ""  # where the expected outputs are from
    is_lacking: bool = False  # it needs a vendor's SDK, which no package brings


def size(n_bytes):
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000 or unit == "MB":
            return f"{n_bytes} B" if unit == "B" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000


def table(rows, right=()):
    """Lines of @rows, the first of which is the head; the columns in @right end flush."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(row):
        return "  ".join(cell.rjust(w) if i in right else cell.ljust(w)
                         for i, (cell, w) in enumerate(zip(row, widths))).rstrip()

    return [line(rows[0]), "  ".join("-" * w for w in widths)] + [line(row) for row in rows[1:]]


def summary(results):
    """A line for each model: how many of its backends were exported, and why the others were not."""
    lines = []
    for model in dict.fromkeys(result.model for result in results):
        of_model = [result for result in results if result.model == model]
        failed = [result for result in of_model if result.failure]
        line = f"{model}: {len(of_model) - len(failed)}/{len(of_model)} backends exported"
        for what, is_lacking in (("failed", False), ("lacking an SDK", True)):
            names = [result.backend for result in failed if result.is_lacking == is_lacking]
            if names:
                line += f", {what}: " + ", ".join(names)
        lines.append(line)
        lines += [f"  {result.backend}: {result.failure}" for result in failed]
    return lines


def report(results):
    rows = [("model", "backend", "time", ".pte", ".bpte", "delegates and kernels", "expected outputs")]
    for result in results:
        if result.failure:
            rows.append((result.model, result.backend, f"{result.seconds:.1f} s", "-", "-",
                         "needs an SDK" if result.is_lacking else "failed", "-"))
        else:
            rows.append((result.model, result.backend, f"{result.seconds:.1f} s", size(result.n_pte),
                         size(result.n_bpte) if result.n_bpte else "-", result.parts, result.expected))
    return "\n".join(table(rows, right=(2, 3, 4)) + [""] + summary(results))
