
// SPDX-License-Identifier: BSD-3-Clause
// The gateway's paths: JSON, and inference with binary tensors, as docs/http.md describes them.

class GatewayError extends Error {
  constructor(message, isAnswer) {
    super(message);
    this.isAnswer = isAnswer; // the gateway has said so; else it does not answer
  }
}

async function request(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: 'no-store', credentials: 'omit', redirect: 'error', ...options });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new GatewayError('The gateway does not answer.', false);
  }
  if (answer.ok) return answer;
  let sentence = `The gateway answers with status ${answer.status}.`;
  try {
    sentence = String((await answer.json()).error);
  } catch { /* what libmicrohttpd refuses has no JSON */ }
  throw new GatewayError(sentence, true);
}

async function ask(path, options) {
  return (await request(path, options)).json();
}

function modelPath(name, version) {
  return `/v2/models/${encodeURIComponent(name)}${version ? `/versions/${encodeURIComponent(version)}` : ''}`;
}

// --- elements of tensors -----------------------------------------------------------------------

const ARRAYS = { FP32: Float32Array, FP64: Float64Array, INT8: Int8Array, INT16: Int16Array, INT32: Int32Array, INT64: BigInt64Array,
  UINT8: Uint8Array, UINT16: Uint16Array, UINT32: Uint32Array, UINT64: BigUint64Array, BOOL: Uint8Array };

// The 16 bits of an IEEE half, rounded to nearest even.
function halfOf(number) {
  const bits = new Uint32Array(new Float32Array([number]).buffer)[0], sign = bits >>> 16 & 0x8000, size = bits & 0x7fffffff;
  if (size >= 0x7f800000) return sign | (size > 0x7f800000 ? 0x7e00 : 0x7c00);
  const least = Math.abs(number) / 2 ** -24, exponent = Math.max(0, (size >>> 23) - 113); // 113: 2^-14, the least normal number
  let steps = least / 2 ** exponent; // a whole number, and what is to be rounded away
  const whole = Math.floor(steps), rest = steps - whole;
  steps = rest > 0.5 || rest === 0.5 && whole % 2 ? whole + 1 : whole;
  return sign | Math.min(0x7c00, exponent * 1024 + steps);
}

function numberOfHalf(half) {
  const exponent = half >> 10 & 31, fraction = half & 1023, sign = half & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24);
}

// Numbers as the bytes of a tensor. Integers are rounded and stop at their bounds.
function encode(datatype, numbers) {
  if (datatype === 'FP16') return new Uint8Array(Uint16Array.from(numbers, halfOf).buffer);
  if (datatype === 'BF16') return new Uint8Array(Uint16Array.from(new Uint32Array(Float32Array.from(numbers).buffer), (bits) => (bits + 0x7fff + (bits >>> 16 & 1)) >>> 16).buffer);
  const Kind = ARRAYS[datatype];
  if (!Kind) throw new GatewayError(`This page cannot write ${datatype}.`, true);
  if (datatype.endsWith('INT64')) return new Uint8Array(Kind.from(numbers, (number) => BigInt(Math.round(number))).buffer);
  if (numbers instanceof Kind) return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);
  if (datatype.startsWith('FP')) return new Uint8Array(Kind.from(numbers).buffer);
  const bits = 8 * Kind.BYTES_PER_ELEMENT, [least, greatest] = datatype === 'BOOL' ? [0, 1]
    : datatype[0] === 'U' ? [0, 2 ** bits - 1] : [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1];
  return new Uint8Array(Kind.from(numbers, (number) => Math.max(least, Math.min(greatest, Math.round(number)))).buffer);
}

function decode(datatype, bytes) {
  const copy = bytes.slice().buffer; // a tensor may begin anywhere
  if (datatype === 'FP16') return Float32Array.from(new Uint16Array(copy), numberOfHalf);
  if (datatype === 'BF16') return new Float32Array(Uint32Array.from(new Uint16Array(copy), (bits) => bits << 16 >>> 0).buffer);
  const array = new ARRAYS[datatype](copy);
  return datatype.endsWith('INT64') ? Float64Array.from(array, Number) : array;
}

function elementsOf(shape) {
  return shape.reduce((n, size) => n * size, 1);
}

// --- inference -----------------------------------------------------------------------------------

// Run a model. @inputs: [{ name, datatype, shape, bytes }]. @classes: names of outputs of which the greatest elements with
// their labels are wanted. The result: { outputs, ms }; an output has name, datatype, shape, and data (an array of
// numbers) or classes ([{ value, index, label }]).
async function infer(model, inputs, { outputs, classes = [], parameters, signal } = {}) {
  const head = JSON.stringify({
    inputs: inputs.map(({ name, datatype, shape, bytes }) => ({ name, datatype, shape, parameters: { binary_data_size: bytes.length } })),
    outputs: outputs.map(({ name }) => ({ name, parameters: classes.includes(name) ? { classification: 5 } : { binary_data: true } })),
    parameters,
  });
  const text = new TextEncoder().encode(head);
  const body = new Blob([text, ...inputs.map(({ bytes }) => bytes)]);
  const began = performance.now();
  const answer = await request(`${modelPath(model)}/infer`, { method: 'POST', body, signal,
    headers: { 'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': String(text.length) } });
  const all = new Uint8Array(await answer.arrayBuffer());
  const ms = performance.now() - began;
  const size = Number(answer.headers.get('Inference-Header-Content-Length') || all.length);
  const said = JSON.parse(new TextDecoder().decode(all.subarray(0, size)));
  let at = size;
  for (const output of said.outputs) {
    const n = output.parameters?.binary_data_size;
    if (n !== undefined) {
      output.data = decode(output.datatype, all.subarray(at, at + n));
      at += n;
    } else if (output.datatype === 'BYTES') {
      output.classes = output.data.map(readClass);
    }
  }
  return { outputs: said.outputs, ms };
}

// "8.316:285:Egyptian cat"; without labels the last part is missing.
function readClass(text) {
  const [value, index, ...label] = text.split(':');
  return { value: Number(value), index: Number(index), label: label.join(':') };
}

// The parameters of a request of a stateful model; @id makes one sequence.
function sequence(id, isStart, isEnd) {
  return { sequence_id: id, sequence_start: isStart, sequence_end: isEnd };
}

function newSequence() {
  return `page-${Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16).padStart(8, '0')).join('')}`;
}
