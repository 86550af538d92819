
// SPDX-License-Identifier: BSD-3-Clause
// The list of models: one card each, which stays in the document while its model is in the repository.

const MOST_CARDS = 100;

const STATES = { // of the repository's index: [what it means, how it looks]
  READY: ['ready', 'good'],
  UNLOADED: ['loads when it is used', ''],
  LOADING: ['loading', 'warn'],
  UNLOADING: ['unloading', 'warn'],
  FAILED: ['cannot be loaded', 'bad'],
  IGNORED: ['ignored', ''],
};

class ModelCard {
  constructor(name) {
    this.latency = new Latency();
    this.badge = element('span', { class: 'badge' });
    this.facts = element('p', { class: 'facts' });
    this.problem = element('p', { class: 'problem' });
    this.versions = element('div');
    this.histogram = new Histogram();
    this.histogram.node.hidden = true;
    this.button = element('button', { type: 'button', text: 'Try it', 'aria-expanded': 'false', click: () => this.toggle(name) });
    this.node = element('article', { 'aria-label': name }, element('div', { class: 'head' },
      element('div', {}, element('h3', { text: `${name} ` }, this.badge), this.facts, this.problem), this.button, this.histogram.node),
    element('details', {}, element('summary', { text: 'Versions and variants' }), this.versions));
  }

  toggle(name) {
    if (this.trial) {
      this.trial.close();
      this.trial = null;
    } else {
      this.trial = new Trial(name);
      this.node.append(this.trial.node);
    }
    setText(this.button, this.trial ? 'Close' : 'Try it');
    setAttribute(this.button, 'aria-expanded', String(Boolean(this.trial)));
  }

  // What the index says; @entries are the versions.
  showIndex(entries) {
    const shown = this.shown = entries.find(({ serves }) => serves) || entries.find(({ state }) => state === 'READY') ||
      entries.find(({ state }) => state !== 'IGNORED') || entries[0];
    const [meaning, looks] = STATES[shown.state] || [shown.state, ''];
    setText(this.badge, meaning);
    setAttribute(this.badge, 'class', `badge ${looks}`);
    setText(this.problem, shown.state === 'FAILED' ? shown.reason : shown.note);
    const text = JSON.stringify(entries);
    if (text !== this.indexText) this.versions.replaceChildren(...entries.map(describeVersion));
    this.indexText = text;
    this.button.hidden = shown.state === 'IGNORED';
  }

  // What changes each second. @program is undefined while the model is not loaded.
  showNumbers(program, at) {
    const { latency, shown } = this;
    const parts = [shown.version && `version ${shown.version}`, program && `on ${program.backend}`];
    if (program) {
      parts.push(bytesText(shown.memory_bytes || program.bytes), `${countText(program.requests)} requests`);
      if (program.median_ns) parts.push(`median ${durationText(program.median_ns)}`);
      if (program.methods) parts.push(program.methods === 1 ? '1 Method open' : `${countText(program.methods)} Methods open`);
    }
    const n = latency.count();
    if (n) parts.push(`${rateText(latency.rate(at))}/s`, `last minute: run ${durationText(latency.mean('runNs'))}, queue ${durationText(latency.mean('waitNs'))}`);
    setText(this.facts, parts.filter(Boolean).join(' · '));
    this.histogram.show(latency);
  }
}

// Why a version of a model serves or not, as `inferctl why` says it.
function describeVersion(entry) {
  const [meaning] = STATES[entry.state] || [entry.state];
  const rows = [
    ['state', `${meaning}${entry.serves ? '; serves clients who do not ask for a version' : ''}`],
    ['backend', entry.backend],
    ['loaded from', entry.file[0]],
    ['files', entry.files.join(', ')],
    ['passed over', entry.passed_over],
    ['note', entry.note],
    [entry.state === 'FAILED' ? 'reason' : 'diagnostic', entry.reason],
  ];
  return element('div', {}, element('h4', { text: entry.version ? `Version ${entry.version}` : 'No version' }),
    element('dl', {}, ...rows.filter(([, text]) => text).flatMap(([name, text]) => [element('dt', { text: name }), element('dd', { text })])));
}

class ModelList {
  constructor() {
    this.cards = new Map(); // name: card
    this.entries = new Map(); // name: versions
    byId('filter').addEventListener('input', () => this.show());
  }

  // Take the index of the repository.
  setIndex(models) {
    this.entries = new Map();
    for (const entry of models) {
      if (!this.entries.has(entry.name)) this.entries.set(entry.name, []);
      this.entries.get(entry.name).push(entry);
    }
    const n = this.entries.size;
    setText(byId('model-count'), n ? countText(n) : 'none yet; inferctl import brings one');
    this.show();
  }

  // Show the models whose names have what the filter says, as far as there is room and those in use first, and those that
  // are being tried.
  show() {
    const wanted = byId('filter').value.toLowerCase(), list = byId('models');
    const isIdle = (name) => this.entries.get(name).every(({ state }) => state === 'UNLOADED' || state === 'IGNORED');
    const found = [...this.entries.keys()].filter((name) => name.toLowerCase().includes(wanted))
      .sort((a, b) => isIdle(a) - isIdle(b));
    const isBusy = (name) => Boolean(this.cards.get(name)?.trial);
    const names = [...new Set([...found.slice(0, MOST_CARDS), ...[...this.entries.keys()].filter(isBusy)])].sort(); // a card never moves
    for (const [name, card] of this.cards) {
      if (this.entries.has(name) && (names.includes(name) || card.latency.last)) continue; // its last minute is kept
      card.trial?.close();
      card.node.remove();
      this.cards.delete(name);
    }
    let before = null;
    for (const name of names) {
      const card = this.card(name);
      card.showIndex(this.entries.get(name));
      if (card.node.parentNode !== list || card.node.previousSibling !== before) list.insertBefore(card.node, before ? before.nextSibling : list.firstChild);
      before = card.node;
    }
    for (const [name, card] of this.cards) if (!names.includes(name)) card.node.remove();
    byId('more').hidden = found.length <= MOST_CARDS;
    setText(byId('more'), `${countText(found.length - MOST_CARDS)} more; the filter finds them.`);
  }

  card(name) {
    if (!this.cards.has(name)) this.cards.set(name, new ModelCard(name));
    return this.cards.get(name);
  }

  // Take a second's numbers. Of several versions the one that serves counts.
  setNumbers(programs, stats, at) {
    const isOf = (card) => (one) => one.version === card.shown.version;
    const byName = (list) => Map.groupBy(list, ({ name }) => name);
    const programsOf = byName(programs), statsOf = byName(stats);
    for (const [name, card] of this.cards) {
      if (!card.shown) continue;
      const mine = statsOf.get(name)?.find(isOf(card));
      if (mine) card.latency.add(at, mine.inference_stats);
      card.latency.expire(at);
      card.showNumbers(programsOf.get(name)?.find(isOf(card)), at);
    }
  }

  // The daemon is another one, which counts from 0.
  restart() {
    for (const card of this.cards.values()) card.latency.last = null;
  }
}
