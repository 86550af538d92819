
// SPDX-License-Identifier: BSD-3-Clause
// From a picture to a tensor, and from a detector's tensor to boxes.
//
// What model.conf says of an input decides, as with the GStreamer element; without it the shape does: one or three channels
// before or after height and width are an image. How pixels become elements is then not known, and the page lets its user
// choose.

const SCALES = [ // pixel * scale + offset
  { name: 'as they are, 0 to 255', scale: [1], offset: [0] },
  { name: '0 to 1', scale: [1 / 255], offset: [0] },
  { name: '-1 to 1', scale: [1 / 128], offset: [-127 / 128] },
  { name: "ImageNet's mean and deviation", scale: [0.017125, 0.017507, 0.017429], offset: [-2.117904, -2.035714, -1.804444] },
];

// What an image for @tensor must be, or null. @parameters are those of the model's configuration.
function imageInput(tensor, parameters) {
  const said = (key) => parameters[`${tensor.name}.${key}`]?.string_value;
  const { shape } = tensor, first = shape.length === 4 ? 1 : 0, layout = said('layout');
  if (shape.length !== 3 && shape.length !== 4 || shape.length === 4 && shape[0] !== 1 || shape.some((size) => size < 1)) return null;
  const isChannels = (n) => n === 1 || n === 3;
  const isFirst = layout ? layout.includes('CHW') : isChannels(shape[first]);
  const channels = shape[isFirst ? first : first + 2];
  if (!isChannels(channels)) return null;
  const [height, width] = isFirst ? shape.slice(first + 1) : shape.slice(first);
  if (height < 2 || width < 2 || height * width > 1 << 24) return null;
  const numbers = (key) => said(key).split(' ').map(Number);
  return { tensor, width, height, channels, isFirst, isBgr: said('colour') === 'BGR',
    scale: layout ? numbers('scale') : null, offset: layout ? numbers('offset') : null };
}

// Draw @source (an image, a video) as the input wants it. @fit: 'crop' takes the centre, 'pad' the whole between grey bars,
// 'stretch' the whole. Returns the pixels, and how a place in them becomes one in @source: x / scaleX - left.
function drawInput(source, sourceWidth, sourceHeight, input, fit) {
  const canvas = element('canvas', { width: input.width, height: input.height });
  const context = canvas.getContext('2d', { willReadFrequently: true });
  let scaleX = input.width / sourceWidth, scaleY = input.height / sourceHeight;
  if (fit === 'crop') scaleX = scaleY = Math.max(scaleX, scaleY);
  if (fit === 'pad') scaleX = scaleY = Math.min(scaleX, scaleY);
  const left = (input.width / scaleX - sourceWidth) / 2, top = (input.height / scaleY - sourceHeight) / 2;
  context.fillStyle = 'rgb(114 114 114)';
  context.fillRect(0, 0, input.width, input.height);
  context.imageSmoothingQuality = 'high';
  context.drawImage(source, left * scaleX, top * scaleY, sourceWidth * scaleX, sourceHeight * scaleY);
  return { pixels: context.getImageData(0, 0, input.width, input.height).data, scaleX, scaleY, left, top };
}

// The bytes of the tensor for the RGBA of a canvas.
function imageTensor(pixels, input, scale, offset) {
  const { width, height, channels, isFirst, isBgr } = input, n = width * height;
  const numbers = new Float32Array(n * channels);
  for (let c = 0; c < channels; c++) {
    const from = isBgr && channels === 3 ? 2 - c : c, step = isFirst ? 1 : channels, begin = isFirst ? c * n : c;
    const a = scale[c] ?? scale[0], b = offset[c] ?? offset[0];
    for (let i = 0; i < n; i++) {
      const at = 4 * i;
      const level = channels === 1 ? Math.round(0.299 * pixels[at] + 0.587 * pixels[at + 1] + 0.114 * pixels[at + 2]) : pixels[at + from];
      numbers[begin + i * step] = level * a + b;
    }
  }
  return encode(input.tensor.datatype, numbers);
}

// --- detectors -----------------------------------------------------------------------------------

// Whether an output has boxes as YOLO's later versions write them: [1, 4 + classes, boxes], or the two turned around. Each
// box has its centre and size in pixels of the input, then a score for each class.
function isDetector(tensor) {
  const [one, a, b] = tensor.shape;
  return tensor.shape.length === 3 && one === 1 && tensor.datatype.startsWith('FP') && Math.min(a, b) >= 5 && Math.max(a, b) >= 100 && a !== b;
}

// Boxes with a score from @threshold on: [{ x, y, width, height, score, index }], x and y of the corner. @best is the greatest
// score of all.
function decodeBoxes(data, shape, threshold) {
  const isTurned = shape[1] > shape[2], n = Math.max(shape[1], shape[2]), rows = Math.min(shape[1], shape[2]);
  const at = isTurned ? (row, i) => data[i * rows + row] : (row, i) => data[row * n + i];
  const boxes = [];
  let best = -Infinity;
  for (let i = 0; i < n; i++) {
    let index = 0, score = -Infinity;
    for (let row = 4; row < rows; row++) {
      const s = at(row, i);
      if (s > score) {
        score = s;
        index = row - 4;
      }
    }
    best = Math.max(best, score);
    if (score >= threshold) {
      const width = at(2, i), height = at(3, i);
      boxes.push({ x: at(0, i) - width / 2, y: at(1, i) - height / 2, width, height, score, index });
    }
  }
  return { boxes, best };
}

function overlap(a, b) {
  const width = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const height = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  const both = Math.max(0, width) * Math.max(0, height);
  return both / (a.width * a.height + b.width * b.height - both || 1);
}

// Non-maximum suppression: of boxes of one class that overlap, the one with the greatest score stays. At most @most.
function suppress(boxes, limit = 0.45, most = 100) {
  const kept = [];
  for (const box of boxes.sort((a, b) => b.score - a.score).slice(0, 3000)) {
    if (kept.length === most) break;
    if (!kept.some((other) => other.index === box.index && overlap(other, box) > limit)) kept.push(box);
  }
  return kept;
}
