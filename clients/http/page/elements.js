
// SPDX-License-Identifier: BSD-3-Clause
// Elements of the page, and numbers as people read them.
//
// What must always be true: text that comes from a gateway, a daemon or a file becomes text of a node, never markup.
'use strict';

const SVG = 'http://www.w3.org/2000/svg';

// Make an element. Of @attributes, `text` is its text, functions are event handlers, and `class` and others are attributes;
// those that are null or false are left out. Children that are null are left out, too.
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === 'text') node.textContent = value;
    else if (typeof value === 'function') node.addEventListener(name, value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

function svg(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function byId(id) {
  return document.getElementById(id);
}

// The two change the document only if something is different, so that nothing flickers and no selection is lost.
function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// A number in a box, with a meter below it if there is a limit.
class Tile {
  constructor(name, into) {
    this.number = element('div', { class: 'number', text: '–' });
    this.note = element('div', { class: 'note' });
    this.bar = element('div');
    this.meter = element('div', { class: 'meter', hidden: true }, this.bar);
    this.node = element('div', { class: 'tile' }, element('div', { class: 'name', text: name }), this.number, this.meter, this.note);
    into.append(this.node);
  }

  set(number, note, share) {
    setText(this.number, number);
    setText(this.note, note || '');
    this.meter.hidden = share === undefined;
    setMeter(this.bar, share || 0);
  }
}

function setMeter(bar, share) {
  bar.style.width = `${Math.min(100, 100 * share).toFixed(1)}%`;
  bar.classList.toggle('full', share >= 0.95);
}

// A ranking: [label, number, text of the number], each with a bar in proportion to @full.
function bars(rows, full) {
  return element('ul', { class: 'bars' }, ...rows.map(([label, number, text]) => {
    const bar = element('div');
    bar.style.width = `${Math.max(0, Math.min(100, 100 * number / (full || 1))).toFixed(1)}%`;
    return element('li', {}, element('div', { class: 'line' }, element('span', { class: 'label', text: label }),
      element('span', { class: 'value', text })), element('div', { class: 'meter' }, bar));
  }));
}

function inUnits(number, units, step) {
  let unit = 0;
  while (number >= step * 0.9995 && unit + 1 < units.length) {
    number /= step;
    unit++;
  }
  const digits = number >= 100 || unit === 0 && Number.isInteger(number) ? 0 : number >= 10 ? 1 : 2;
  return `${number.toFixed(digits)} ${units[unit]}`;
}

function bytesText(n) {
  return inUnits(n, ['B', 'KiB', 'MiB', 'GiB', 'TiB'], 1024);
}

function durationText(ns) {
  return ns < 1000 ? `${Math.round(ns)} ns` : inUnits(ns / 1000, ['µs', 'ms', 's'], 1000);
}

function countText(n) {
  return n >= 1e6 ? `${(n / 1e6).toFixed(2)} M` : n.toLocaleString('en').replaceAll(',', '\u202f');
}

function rateText(perSecond) {
  return perSecond >= 100 || perSecond === 0 ? countText(Math.round(perSecond)) : perSecond.toFixed(1);
}

function uptimeText(ns) {
  const minutes = Math.floor(ns / 6e10), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  return days ? `${days} d ${hours % 24} h` : hours ? `${hours} h ${minutes % 60} min` : minutes ? `${minutes} min` : `${Math.floor(ns / 1e9)} s`;
}

// A number of a tensor.
function valueText(number) {
  const size = Math.abs(number);
  return Number.isInteger(number) && size < 1e6 ? String(number) : size !== 0 && (size < 1e-3 || size >= 1e6) ? number.toExponential(2) : number.toFixed(3);
}
