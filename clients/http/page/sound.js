
// SPDX-License-Identifier: BSD-3-Clause
// Sound: a file to frames of samples, and the answers for them as a curve over time.

const RATE = 16000; // samples a second; model.conf has no word for it

// Whether @tensor is one row of samples. How many: its length.
function isSound(tensor) {
  const { shape } = tensor;
  return tensor.datatype === 'FP32' && shape.length > 0 && shape.slice(0, -1).every((size) => size === 1) && shape.at(-1) >= 64;
}

// The samples of a sound file at RATE, its channels mixed to one. The browser decodes it and changes its rate.
async function decodeSound(file) {
  const sound = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(await file.arrayBuffer());
  const mixed = new Float32Array(sound.length);
  for (let c = 0; c < sound.numberOfChannels; c++) {
    const channel = sound.getChannelData(c);
    for (let i = 0; i < mixed.length; i++) mixed[i] += channel[i] / sound.numberOfChannels;
  }
  return mixed;
}

// Frames of @size samples; the last one ends in zeros.
function* framesOf(samples, size) {
  for (let at = 0; at < samples.length; at += size) {
    const frame = new Float32Array(size);
    frame.set(samples.subarray(at, at + size));
    yield frame;
  }
}

// Where @values, one for each @step seconds, are at least @threshold: [[begin, end]] in seconds.
function spans(values, step, threshold) {
  const found = [];
  values.forEach((value, i) => {
    if (value < threshold) return;
    if (found.length && found.at(-1)[1] === i) found.at(-1)[1] = i + 1;
    else found.push([i, i + 1]);
  });
  return found.map(([begin, end]) => [begin * step, end * step]);
}

// Draw the values of the frames so far, and over them the samples.
function drawSound(canvas, samples, values, size) {
  const context = canvas.getContext('2d'), { width, height } = canvas, style = getComputedStyle(document.documentElement);
  context.clearRect(0, 0, width, height);
  const least = values.reduce((a, b) => Math.min(a, b), 0), greatest = values.reduce((a, b) => Math.max(a, b), 1);
  const column = width * size / samples.length;
  context.fillStyle = style.getPropertyValue('--run');
  values.forEach((value, i) => {
    const tall = (value - least) / (greatest - least) * height;
    context.fillRect(i * column, height - tall, Math.max(1, column - 0.5), tall);
  });
  context.fillStyle = style.getPropertyValue('--ink');
  context.globalAlpha = 0.7;
  const step = samples.length / width;
  for (let x = 0; x < width; x++) {
    let peak = 0;
    for (let i = Math.floor(x * step); i < Math.min((x + 1) * step, samples.length); i++) peak = Math.max(peak, Math.abs(samples[i]));
    context.fillRect(x, height / 2 - peak * height / 2, 1, Math.max(1, peak * height));
  }
  context.globalAlpha = 1;
}
