
// SPDX-License-Identifier: BSD-3-Clause
// The daemon's numbers, once a second while somebody looks; and the start of the page.
//
// What must always be true: one question is under way at a time, and none while the page is hidden.

const SECOND = 1000, INDEX_EVERY = 5 * SECOND, SPARKS = 60;

class StatusView {
  constructor() {
    this.models = new ModelList();
    this.rates = [];
    const tiles = byId('tiles');
    this.tiles = { rate: new Tile('Requests a second', tiles), flight: new Tile('In flight', tiles), memory: new Tile('Memory of models', tiles),
      resident: new Tile("Daemon's memory", tiles), failed: new Tile('Failed', tiles), copied: new Tile('Tensor bytes copied', tiles) };
    this.spark = svg('polyline', { class: 'spark', points: '' });
    const canvas = svg('svg', { viewBox: `0 0 ${SPARKS - 1} 20`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
    canvas.append(this.spark);
    this.tiles.rate.node.append(canvas);
    this.queues = new Map();
    this.limits = new Map();
    document.addEventListener('visibilitychange', () => this.look());
    this.look();
  }

  // Ask now, unless a question is under way or nobody looks.
  look() {
    if (document.hidden) setState('paused while hidden', '');
    else if (!this.isAsking) this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    this.isAsking = true;
    try {
      await this.poll();
      this.failures = 0;
      setState('live', 'live');
    } catch (error) {
      this.failures = (this.failures || 0) + 1;
      this.lostAt ??= new Date();
      setState(error.isAnswer ? 'no daemon' : 'no gateway', 'lost');
      setTrouble(`${error.message} Lost at ${this.lostAt.toLocaleTimeString()}; this page goes on by itself.`);
    }
    this.isAsking = false;
    if (!document.hidden) this.timer = setTimeout(() => this.look(), this.failures > 10 ? 5 * SECOND : SECOND);
    else setState('paused while hidden', '');
  }

  async poll() {
    const [status, { model_stats: stats }] = await Promise.all([ask('/v2/inferd/status'), ask('/v2/models/stats')]);
    const at = performance.now(), loaded = JSON.stringify(status.programs.map(({ name, version, backend }) => [name, version, backend]));
    // Another daemon has begun later. Its uptime alone does not tell: the one before may have lived as briefly.
    const begun = at - status.uptime_ns / 1e6, { last } = this;
    const isNew = last && (status.uptime_ns < last.status.uptime_ns || this.lostAt && begun > last.begun + SECOND / 2);
    if (isNew || loaded !== this.loaded || at - this.indexAt >= INDEX_EVERY || this.indexAt === undefined) {
      this.models.setIndex((await ask('/v2/inferd/models')).models); // what can fail comes first
      this.indexAt = at;
      this.loaded = loaded;
    }
    if (isNew) this.restart();
    if (isNew) this.notice = { until: at + 30 * SECOND, text: `The daemon was started again at ${new Date().toLocaleTimeString()}; its numbers begin at 0.` };
    setTrouble(this.notice && at < this.notice.until ? this.notice.text : '');
    this.lostAt = undefined;
    this.show(status, at);
    this.models.setNumbers(status.programs, stats, at);
    this.last = { status, at, begun };
  }

  // The daemon is another one, which counts from 0 and may have other queues.
  restart() {
    this.last = null;
    this.models.restart();
    this.queues.clear();
    byId('queues').replaceChildren();
  }

  show(status, at) {
    const { tiles, last } = this, seconds = last ? (at - last.at) / SECOND : 0;
    const rate = last ? (status.requests - last.status.requests) / seconds : 0;
    if (last) this.rates.push(rate);
    if (this.rates.length > SPARKS) this.rates.shift();
    const top = Math.max(...this.rates, 1);
    setAttribute(this.spark, 'points', this.rates.map((r, i) => `${SPARKS - this.rates.length + i},${(19 - 18 * r / top).toFixed(1)}`).join(' '));
    const sum = (key) => status.queues.reduce((n, queue) => n + queue[key], 0);
    tiles.rate.set(last ? rateText(rate) : '–', `${countText(status.requests)} in ${uptimeText(status.uptime_ns)}`);
    tiles.flight.set(countText(sum('running') + sum('waiting')), `${countText(sum('waiting'))} waiting`);
    tiles.memory.set(bytesText(status.memory_used), status.memory_budget ? `of ${bytesText(status.memory_budget)}` : 'no budget is set',
      status.memory_budget ? status.memory_used / status.memory_budget : undefined);
    tiles.resident.set(bytesText(status.resident_bytes), 'resident');
    tiles.failed.set(countText(status.failed), status.requests ? `${(100 * status.failed / status.requests).toFixed(2)} % of requests` : '');
    tiles.copied.set(bytesText(status.copied_bytes), 'in runs');
    setText(byId('version'), status.version);
    this.showQueues(status.queues, last ? new Map(last.status.queues.map((queue) => [queue.name, queue])) : null, seconds);
    this.showGateway(status);
  }

  showQueues(queues, before, seconds) {
    for (const queue of queues) {
      if (!this.queues.has(queue.name)) {
        const bar = element('div'), busy = element('span');
        const cells = Array.from({ length: 4 }, () => element('td'));
        byId('queues').append(element('tr', {}, element('td', {}, element('strong', { text: queue.name }), element('span', { class: 'soft', text: queue.device ? ` ${queue.device}` : '' })),
          element('td', {}, busy, element('div', { class: 'meter' }, bar)), ...cells));
        this.queues.set(queue.name, { bar, busy, cells });
      }
      const { bar, busy, cells } = this.queues.get(queue.name), earlier = before?.get(queue.name);
      const share = earlier ? Math.max(0, Math.min(1, (queue.busy_ns - earlier.busy_ns) / (seconds * 1e9 * (queue.workers || 1)))) : 0;
      setText(busy, `${Math.round(100 * share)} %`);
      setMeter(bar, share);
      const extra = [queue.spares && `${queue.spares} spare`, queue.stuck && `${queue.stuck} stuck`].filter(Boolean).join(', ');
      const done = earlier ? rateText((queue.completed - earlier.completed) / seconds) : '–';
      [`${queue.workers}${extra ? ` (${extra})` : ''}`, countText(queue.running), countText(queue.waiting), done].forEach((text, i) => setText(cells[i], text));
    }
  }

  showGateway({ connections, user, plugins, backends }) {
    const parts = [`${countText(connections.count)} connections to the daemon, ${countText(connections.in_flight)} requests in flight on them, ${countText(connections.methods)} models open, ${bytesText(connections.region_bytes)} of tensors.`];
    if (user) parts.push(`Weight ${user.weight}, priority ${user.priority} at most.`);
    parts.push(`Backends: ${backends.join(', ')}.`);
    for (const { backend, crashes, reason } of plugins)
      if (crashes) parts.push(`The plug-in ${backend} has crashed ${crashes} times${reason ? `: ${reason}` : ''}.`);
    setText(byId('connections'), parts.join(' '));
    for (const { name, used, limit } of user ? user.limits : []) {
      if (!this.limits.has(name)) this.limits.set(name, new Tile(name, byId('limits')));
      const text = name === 'bytes' ? bytesText : countText, isLimited = limit < Number.MAX_SAFE_INTEGER;
      this.limits.get(name).set(text(used), isLimited ? `of ${text(limit)}` : 'no limit', isLimited ? used / (limit || 1) : undefined);
    }
  }
}

function setState(text, looks) {
  setText(byId('state'), text);
  setAttribute(byId('state'), 'class', `state ${looks}`);
}

function setTrouble(text) {
  setText(byId('trouble'), text);
  byId('trouble').hidden = !text;
}

// A file that is dropped beside a place for it must not take the page's place.
for (const name of ['dragover', 'drop']) window.addEventListener(name, (event) => event.preventDefault());

const view = new StatusView();
