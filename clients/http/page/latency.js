
// SPDX-License-Identifier: BSD-3-Clause
// Latency of a model: what its statistics have grown by, second by second, as two histograms of the last minute.
//
// The daemon counts requests and sums their times. So the requests of one second count at their mean; the histogram of a
// model with one request a second is exact, and of a busy one it shows how the means move.

const MINUTE = 60000, COLUMNS = 24, LEAST_NS = 1e4, PER_DECADE = 4; // 10 µs to 10 s

function columnOf(ns) {
  return Math.max(0, Math.min(COLUMNS - 1, Math.floor(Math.log10(ns / LEAST_NS) * PER_DECADE)));
}

class Latency {
  constructor() {
    this.samples = []; // { at, n, runNs, waitNs } of each second with requests
    this.last = null;
  }

  // Take the statistics of one model at the time @at, in milliseconds.
  add(at, { success, queue, compute_infer: run }) {
    const now = { at, n: run.count, runNs: run.ns, waitNs: queue.ns, waits: queue.count };
    const { last } = this;
    this.last = now;
    if (last && now.n >= last.n && success.count >= 0) {
      const n = now.n - last.n, waits = now.waits - last.waits;
      if (n > 0 && waits > 0) this.samples.push({ at, n, seconds: (at - last.at) / 1000, runNs: (now.runNs - last.runNs) / n, waitNs: (now.waitNs - last.waitNs) / waits });
    }
  }

  // Forget what is older than a minute before @at.
  expire(at) {
    while (this.samples.length && this.samples[0].at <= at - MINUTE) this.samples.shift();
  }

  // Requests of the last minute.
  count() {
    return this.samples.reduce((n, sample) => n + sample.n, 0);
  }

  // Requests a second, in the one that ends @at.
  rate(at) {
    const sample = this.samples.at(-1);
    return sample && sample.at === at ? sample.n / sample.seconds : 0;
  }

  mean(key) {
    return this.samples.reduce((sum, sample) => sum + sample.n * sample[key], 0) / (this.count() || 1);
  }

  columns(key) {
    const columns = new Array(COLUMNS).fill(0);
    for (const sample of this.samples) columns[columnOf(sample[key])] += sample.n;
    return columns;
  }
}

// The picture: runs above the line, waits below it.
class Histogram {
  constructor() {
    const canvas = svg('svg', { viewBox: `0 0 ${COLUMNS * 10} 80`, preserveAspectRatio: 'none', role: 'img' });
    this.title = svg('title', {});
    canvas.append(this.title);
    this.bars = ['run', 'wait'].map((name) => Array.from({ length: COLUMNS }, (_, i) => {
      const bar = svg('rect', { class: name, x: i * 10 + 1, width: 8, y: 40, height: 0 });
      canvas.append(bar);
      return bar;
    }));
    canvas.append(svg('line', { class: 'axis', x1: 0, x2: COLUMNS * 10, y1: 40, y2: 40 }));
    const ticks = ['10 µs', '1 ms', '100 ms', '10 s'].map((text) => element('span', { text }));
    this.node = element('div', { class: 'histogram' }, canvas, element('div', { class: 'ticks', 'aria-hidden': 'true' }, ...ticks));
  }

  show(latency) {
    const n = latency.count();
    this.node.hidden = n === 0;
    setText(this.title, `${n} requests in the last minute: run ${durationText(latency.mean('runNs'))}, in the queue before ${durationText(latency.mean('waitNs'))}, on average`);
    ['runNs', 'waitNs'].forEach((key, which) => {
      const columns = latency.columns(key), most = Math.max(...columns);
      columns.forEach((value, i) => {
        const drawn = value ? Math.max(1.5, 38 * value / most) : 0;
        setAttribute(this.bars[which][i], 'height', drawn.toFixed(1));
        if (which === 0) setAttribute(this.bars[which][i], 'y', (40 - drawn).toFixed(1));
      });
    });
  }
}
