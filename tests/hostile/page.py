# SPDX-License-Identifier: BSD-3-Clause
"""What the victim saw, attack by attack: a table, and a picture of its latency and the daemon's memory over time."""

import os
import platform

P99_TIMES, MAXIMUM_TIMES = 2, 10  # of the quiet values


def quantile(sorted_values, q):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * q))]


def rows(phases, victim):
    """(name, requests of the victim, p50, p99, maximum in ms, what the attackers did); phases of one name are one row."""
    merged = {}
    for name, begin, end, done in phases:
        answers = [a[1] * 1000 for a in victim.between(begin, end)]
        entry = merged.setdefault(name, [[], 0])
        entry[0] += answers
        entry[1] += done or 0
    result = []
    for name, (latencies, done) in merged.items():
        latencies.sort()
        if latencies:
            result.append((name, len(latencies), quantile(latencies, 0.5), quantile(latencies, 0.99), latencies[-1], done))
    return result


def table(all_rows):
    lines = [f"{'':28} {'asked':>6} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'p99 x':>6} {'max x':>6}  tried"]
    quiet = next((r for r in all_rows if r[0] == "quiet"), None)
    for name, n, p50, p99, most, done in all_rows:
        ratio = f"{p99 / quiet[3]:6.1f} {most / quiet[4]:6.1f}" if quiet else ""
        lines.append(f"{name:28} {n:6} {p50:8.2f} {p99:8.2f} {most:8.2f} {ratio}  {done or ''}")
    return "\n".join(lines)


def told(notes):
    """A line for each thing that attacks told: the most of all times."""
    lines = []
    for what, n in notes.items():
        parts = [f"{what}: {n['times']} x"]
        parts.append(f"at most {n['count']}" if "count" in n else "")
        parts.append(f"at most {n['seconds']:.2f} s" if "seconds" in n else "")
        if "daemon" in n:
            parts.append(f"memory of the daemon at most {n['daemon'] >> 20} MB, of processes for programs {n['hosts'] >> 20} MB")
        lines.append(", ".join(filter(None, parts)))
    return "\n".join(lines)


def too_slow(all_rows):
    quiet = next(r for r in all_rows if r[0] == "quiet")
    for name, _, _, p99, most, _ in all_rows:
        if p99 > P99_TIMES * quiet[3]:
            yield f"{name}: p99 {p99:.1f} ms is more than {P99_TIMES} x {quiet[3]:.1f} ms"
        if most > MAXIMUM_TIMES * quiet[4]:
            yield f"{name}: maximum {most:.1f} ms is more than {MAXIMUM_TIMES} x {quiet[4]:.1f} ms"


def plot(x0, y0, width, height, points, color, top, begin, end, floor=0):
    """Dots of @points (time, value) in a frame."""
    out = [f'<rect x="{x0}" y="{y0}" width="{width}" height="{height}" fill="none" stroke="#999"/>']
    span = max(end - begin, 1e-9)
    for t, value in points:
        x = x0 + (t - begin) / span * width
        y = y0 + height - min(max(value - floor, 0) / max(top - floor, 1e-9), 1) * height
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="1.2" fill="{color}"/>')
    for k in range(5):
        value = floor + (top - floor) * k / 4
        out.append(f'<text x="{x0 - 6}" y="{y0 + height - height * k / 4 + 4:.1f}" font-size="11" text-anchor="end">{value:.0f}</text>')
    return out


def svg(phases, victim, daemon):
    begin, end = phases[0][1], max(p[2] for p in phases if p[1] <= victim.answers[-1][0])
    x0, width, height = 70, 1100, 220
    out = ['<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="640" font-family="sans-serif">',
           '<rect width="1200" height="640" fill="white"/>']
    shown = [p for p in phases if p[1] < end]
    for i, (name, b, e, _) in enumerate(shown):
        xb, xe = x0 + (b - begin) / (end - begin) * width, x0 + (e - begin) / (end - begin) * width
        out.append(f'<rect x="{xb:.1f}" y="40" width="{xe - xb:.1f}" height="{2 * height + 60}" fill="{"#eef3fa" if i % 2 else "#f8f4ec"}"/>')
        if xe - xb > 14:
            out.append(f'<text x="{(xb + xe) / 2 + 4:.1f}" y="{2 * height + 110}" font-size="11" '
                       f'transform="rotate(30 {(xb + xe) / 2:.1f} {2 * height + 110})">{name}</text>')
    latencies = [(a[0], a[1] * 1000) for a in victim.answers]
    samples = [s for s in daemon.samples if begin <= s[0] <= end]
    memory = [(s[0], s[1] / (1 << 20)) for s in samples]
    of_hosts = [(s[0], s[2] / (1 << 20)) for s in samples]
    step = max(1, len(latencies) // 20000)
    out.append(f'<text x="{x0}" y="32" font-size="13">latency of the victim, ms (each dot is a request)</text>')
    out += plot(x0, 40, width, height, latencies[::step], "#b02020", max(v for _, v in latencies), begin, end)
    out.append(f'<text x="{x0}" y="{40 + height + 38}" font-size="13">memory, MB: the daemon (blue, RSS), '
               f'processes for programs together (green, RSS: memory that they share counts in each)</text>')
    step = max(1, len(memory) // 20000)
    top = max([v for _, v in memory + of_hosts] or [1])
    out += plot(x0, 50 + height + 40, width, height, of_hosts[::step], "#208040", top, begin, end)
    out += plot(x0, 50 + height + 40, width, height, memory[::step], "#2050a0", top, begin, end)
    out.append("</svg>")
    return "\n".join(out)


def write(folder, suite):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "hostile.svg"), "w", encoding="utf-8") as f:
        f.write(svg(suite.phases, suite.victim, suite.daemon))
    with open(os.path.join(folder, "hostile.txt"), "w", encoding="utf-8") as f:
        total = suite.phases[-1][2] - suite.phases[0][1]
        peak, of_hosts = suite.daemon.peaks()
        f.write(f"tests/hostile: {total / 60:.1f} minutes, seed {suite.options.seed}, {platform.machine()}, "
                f"{os.cpu_count()} processors, Linux {platform.release()}\n"
                f"{suite.shares}\n"
                f"memory at most: {peak >> 20} MB in the daemon, {of_hosts >> 20} MB in processes for programs together\n\n"
                f"{table(suite.rows)}\n\n{told(suite.notes)}\n\n")
        for name, _, _, done in suite.phases:
            if all(name != r[0] for r in suite.rows):
                f.write(f"{name}: {done}\n")
        f.write("\nhostile.svg: the victim's latency and the daemon's memory over time\n")
        f.write("".join(f"FAILED: {where}: {what}\n" for where, what in suite.failures) or "no failures\n")
