
// SPDX-License-Identifier: BSD-3-Clause
// Trying a model: a picture or a camera, a sound, sentences, or numbers, whatever its inputs are; and its answer.
//
// A trial begins with the model's configuration, which loads the model if no client has it open. It ends when its panel
// is closed: requests are aborted, and the camera is released.

class Trial {
  constructor(name) {
    this.name = name;
    this.abort = new AbortController();
    this.error = element('p', { class: 'problem', role: 'alert' });
    this.body = element('div', {}, element('p', { class: 'soft', text: 'Loading the model …' }));
    this.result = element('div', { class: 'result', 'aria-live': 'polite' });
    this.timing = element('p', { class: 'soft' });
    this.node = element('div', { class: 'try' }, this.body, this.error, this.timing, this.result);
    this.labels = [];
    this.guard(() => this.open());
  }

  close() {
    this.abort.abort();
    this.stopCamera();
    this.node.remove();
  }

  // Run @work and show its error, if it has one.
  async guard(work) {
    setText(this.error, '');
    try {
      await work();
    } catch (error) {
      if (!this.abort.signal.aborted) setText(this.error, error.message || String(error));
    }
  }

  async open() {
    const config = await ask(`${modelPath(this.name)}/config`, { signal: this.abort.signal });
    const tensors = (list) => list.map(({ name, data_type: type, dims }) => ({ name, datatype: type.slice(5), shape: dims }));
    this.inputs = tensors(config.input);
    this.outputs = tensors(config.output);
    this.isStateful = Boolean(config.sequence_batching);
    this.image = this.inputs.length === 1 ? imageInput(this.inputs[0], config.parameters) : null;
    this.detector = this.image && this.outputs.find(isDetector);
    this.body.replaceChildren();
    if (this.image) this.openImage();
    else if (this.inputs.length === 1 && isSound(this.inputs[0])) this.openSound();
    else if (isSentence(this.inputs)) this.openSentence();
    this.openNumbers();
  }

  // Run the model on tensors, as a sequence of its own if it has a state and @parameters name none.
  async run(inputs, classes = [], parameters = this.isStateful ? sequence(newSequence(), true, true) : undefined) {
    const answer = await infer(this.name, inputs, { outputs: this.outputs, classes, parameters, signal: this.abort.signal });
    setText(this.timing, `${answer.ms.toFixed(1)} ms from this browser and back.`);
    return answer.outputs;
  }

  // --- files ---

  // A place to drop a file, with a button to choose one.
  dropPlace(text, accept, take, ...more) {
    const choose = element('input', { type: 'file', accept, change: () => choose.files[0] && this.guard(() => take(choose.files[0])) });
    const place = element('div', { class: 'drop' }, element('p', { text }),
      element('div', { class: 'actions' }, element('label', { class: 'button', text: 'Choose a file' }, choose), ...more));
    const over = (event, is) => {
      event.preventDefault();
      place.classList.toggle('over', is);
    };
    place.addEventListener('dragover', (event) => over(event, true));
    place.addEventListener('dragleave', (event) => over(event, false));
    place.addEventListener('drop', (event) => {
      over(event, false);
      const [file] = event.dataTransfer.files;
      if (file) this.guard(() => take(file));
    });
    return place;
  }

  labelsButton() {
    const choose = element('input', { type: 'file', accept: '.txt,text/plain', change: () => this.guard(async () => {
      this.labels = (await choose.files[0].text()).split(/\r?\n/);
      if (this.again) await this.again();
    }) });
    return element('label', { class: 'button', text: 'Labels from a file' }, choose);
  }

  option(text, choices, chosen) {
    const select = element('select', { change: () => this.again && this.guard(this.again) },
      ...choices.map(([value, name]) => element('option', { value, text: name, selected: value === chosen })));
    this.options.append(element('label', { text: `${text} ` }, select));
    return select;
  }

  // --- pictures ---

  openImage() {
    const { image } = this;
    this.cameraButton = element('button', { type: 'button', text: 'Open the camera', click: () => this.guard(() => this.toggleCamera()) });
    this.options = element('div', { class: 'options' });
    this.body.append(this.dropPlace('Drop a picture here', 'image/*', (file) => this.takePicture(file), this.cameraButton), this.options);
    this.fit = this.option('Fit', [['crop', 'centre'], ['pad', 'whole, with bars'], ['stretch', 'whole, stretched']], this.detector ? 'pad' : 'crop');
    if (!image.scale)
      this.scale = this.option('Pixels become', SCALES.map(({ name }, i) => [String(i), name]),
        image.tensor.datatype.startsWith('FP') ? this.detector ? '1' : '2' : '0');
    if (this.detector) {
      this.threshold = element('input', { type: 'range', min: '0', max: '1', step: '0.01', value: '0.25', input: () => this.showBoxes && this.showBoxes() });
      this.options.append(element('label', { text: 'Score from ' }, this.threshold));
    }
    this.options.append(this.labelsButton(), element('span', { class: 'soft', text: image.scale ? 'model.conf says how pixels become elements.'
      : 'model.conf does not say how pixels become elements; choose.' }));
    this.canvas = element('canvas', { role: 'img', 'aria-label': 'the picture' });
  }

  async takePicture(file) {
    this.stopCamera();
    let bitmap;
    try {
      bitmap = await createImageBitmap(file);
    } catch {
      throw new GatewayError(`${file.name} is no picture that this browser can read.`, false);
    }
    this.again = () => this.showPicture(bitmap, bitmap.width, bitmap.height);
    await this.again();
  }

  async showPicture(source, width, height) {
    const { image } = this, { scale, offset } = image.scale ? image : SCALES[Number(this.scale.value)];
    const drawn = drawInput(source, width, height, image, this.fit.value);
    const bytes = imageTensor(drawn.pixels, image, scale, offset);
    this.lastInput = bytes;
    this.paint(source, width, height, drawn);
    const ranked = this.outputs.filter((output) => isRanking(output)).map(({ name }) => name);
    const outputs = await this.run([{ ...image.tensor, bytes }], ranked);
    this.lastOutputs = outputs;
    const found = element('div', {});
    this.result.replaceChildren(this.canvas, found);
    this.showBoxes = null;
    for (const output of outputs) {
      if (this.detector && output.name === this.detector.name) {
        this.showBoxes = () => this.paintBoxes(output, source, width, height, drawn, found);
        this.showBoxes();
      } else {
        found.append(this.describe(output));
      }
    }
  }

  // The picture as it is, darker where the model does not look.
  paint(source, width, height, { scaleX, scaleY, left, top }) {
    const { canvas, image } = this, zoom = Math.min(1, 640 / width, 480 / height), context = canvas.getContext('2d');
    canvas.width = Math.round(width * zoom);
    canvas.height = Math.round(height * zoom);
    context.drawImage(source, 0, 0, canvas.width, canvas.height);
    context.fillStyle = 'rgb(0 0 0 / 45%)';
    const seen = new Path2D();
    seen.rect(0, 0, canvas.width, canvas.height);
    seen.rect(-left * zoom, -top * zoom, image.width / scaleX * zoom, image.height / scaleY * zoom);
    context.fill(seen, 'evenodd');
    return zoom;
  }

  paintBoxes(output, source, width, height, drawn, found) {
    const threshold = Number(this.threshold.value), { boxes, best } = decodeBoxes(output.data, output.shape, threshold);
    const kept = suppress(boxes), zoom = this.paint(source, width, height, drawn), context = this.canvas.getContext('2d');
    this.lastBoxes = kept.map((box) => ({ ...box, x: box.x / drawn.scaleX - drawn.left, y: box.y / drawn.scaleY - drawn.top,
      width: box.width / drawn.scaleX, height: box.height / drawn.scaleY }));
    context.font = '600 13px system-ui, sans-serif';
    context.lineWidth = 2;
    for (const box of this.lastBoxes) {
      const colour = `hsl(${box.index * 67 % 360} 85% 60%)`, text = `${this.labelOf(box.index)} ${box.score.toFixed(2)}`;
      context.strokeStyle = context.fillStyle = colour;
      context.strokeRect(box.x * zoom, box.y * zoom, box.width * zoom, box.height * zoom);
      const wide = context.measureText(text).width + 8, y = Math.max(0, box.y * zoom - 18);
      context.fillRect(box.x * zoom - 1, y, wide, 18);
      context.fillStyle = '#000';
      context.fillText(text, box.x * zoom + 3, y + 13);
    }
    found.replaceChildren(element('h4', { text: kept.length === 1 ? 'One box' : kept.length ? `${kept.length} boxes` : 'No box' }));
    if (kept.length) found.append(bars(kept.slice(0, 12).map((box) => [this.labelOf(box.index), box.score, box.score.toFixed(3)]), 1));
    else found.append(element('p', { class: 'soft', text: `The greatest score is ${valueText(best)}, below ${threshold}.` }));
  }

  labelOf(index, label) {
    return this.labels[index] || label || `class ${index}`;
  }

  async toggleCamera() {
    if (this.stream) {
      this.stopCamera();
      return;
    }
    if (!navigator.mediaDevices) throw new GatewayError('Browsers open a camera only on pages from this computer (localhost) or over TLS.', false);
    const mine = this.camera = {}; // a later click ends this one
    const stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: 'environment', width: { ideal: 640 } } });
    if (this.abort.signal.aborted || this.camera !== mine) {
      stream.getTracks().forEach((track) => track.stop());
      return;
    }
    this.stream = stream;
    setText(this.cameraButton, 'Close the camera');
    this.result.setAttribute('aria-live', 'off'); // a reader would read each frame
    const video = element('video', { playsinline: true });
    video.muted = true;
    video.srcObject = stream;
    this.again = null;
    try {
      await video.play();
      while (this.stream === stream && stream.active) {
        if (!document.hidden) await this.showPicture(video, video.videoWidth, video.videoHeight);
        await new Promise((done) => { setTimeout(done, document.hidden ? 500 : 30); });
      }
    } finally {
      if (this.stream === stream) this.stopCamera();
    }
  }

  stopCamera() {
    this.stream?.getTracks().forEach((track) => track.stop());
    this.stream = null;
    this.result.setAttribute('aria-live', 'polite');
    if (this.cameraButton) setText(this.cameraButton, 'Open the camera');
  }

  // --- sounds ---

  openSound() {
    this.body.append(this.dropPlace(`Drop a sound here; it is brought to ${RATE / 1000} kHz, one channel`, 'audio/*', (file) => this.takeSound(file)));
    this.canvas = element('canvas', { width: 900, height: 160, role: 'img', 'aria-label': 'the sound, and the answers over time' });
  }

  async takeSound(file) {
    let samples;
    try {
      samples = await decodeSound(file);
    } catch {
      throw new GatewayError(`${file.name} is no sound that this browser can read.`, false);
    }
    const tensor = this.inputs[0], size = tensor.shape.at(-1), n = Math.ceil(samples.length / size);
    const mine = this.sound = {}; // a later sound ends this one
    const id = newSequence(), values = this.lastValues = [], text = element('p', { class: 'values' });
    this.result.replaceChildren(element('div', {}, this.canvas, text));
    let i = 0, last, drawn = 0;
    for (const frame of framesOf(samples, size)) {
      if (this.sound !== mine) {
        // The gateway need not keep the rest of the sequence for its time without requests.
        if (this.isStateful && i) await this.run([{ ...tensor, bytes: encode('FP32', frame) }], [], sequence(id, false, true));
        return;
      }
      last = await this.run([{ ...tensor, bytes: encode('FP32', frame) }], [], this.isStateful ? sequence(id, i === 0, i === n - 1) : undefined);
      values.push(last[0].data[0]);
      i++;
      if (performance.now() - drawn < 250 && i < n) continue;
      drawSound(this.canvas, samples, values, size);
      drawn = performance.now();
    }
    if (!last) throw new GatewayError(`${file.name} has no samples.`, false);
    const seconds = spans(values, size / RATE, 0.5).map(([begin, end]) => `${begin.toFixed(2)} to ${end.toFixed(2)} s`);
    setText(text, `${this.outputs[0].name}, its first element, in ${n} frames: ${seconds.length ? `0.5 or more from ${seconds.join(', ')}` : 'below 0.5'}.`);
    this.result.append(...last.filter(({ data }) => data.length > 1).map((output) => this.describe(output)));
  }

  // --- sentences ---

  openSentence() {
    const compare = element('button', { type: 'button', class: 'main', text: 'Compare', disabled: true, click: () => this.guard(() => this.takeSentences(text.value)) });
    const text = element('textarea', { 'aria-label': 'Sentences, one a line', spellcheck: 'false' });
    text.value = 'A cat sleeps on the sofa.\nA kitten is dozing on the couch.\nThe stock market fell today.';
    const state = element('span', { class: 'soft', text: "The model's vocab.txt is needed: the folder of a model has no place for it." });
    const choose = element('input', { type: 'file', accept: '.txt,text/plain', change: () => this.guard(async () => {
      this.words = new WordPiece(await choose.files[0].text());
      setText(state, `${countText(this.words.ids.size)} tokens.`);
      compare.disabled = false;
    }) });
    this.body.append(element('p', { text: 'One sentence a line; the others are compared with the first one.' }), text,
      element('div', { class: 'actions' }, element('label', { class: 'button', text: 'Vocabulary' }, choose), compare, state));
  }

  async takeSentences(text) {
    const lines = text.split('\n').map((line) => line.trim()).filter(Boolean).slice(0, 50), vectors = [];
    const size = this.inputs[0].shape[1];
    for (const line of lines) {
      const ids = this.words.encode(line, size > 0 ? size : 512);
      vectors.push(embeddingOf((await this.run(tokenInputs(this.inputs, ids)))[0], ids.length));
    }
    const rows = vectors.slice(1).map((vector, i) => [lines[i + 1], likeness(vectors[0], vector)]).sort((a, b) => b[1] - a[1]);
    this.result.replaceChildren(element('div', {}, element('h4', { text: lines[0] || 'No sentence' }),
      bars(rows.map(([line, value]) => [line, value, value.toFixed(3)]), 1)));
  }

  // --- numbers ---

  openNumbers() {
    const what = element('select', {}, ...['zeros', 'ones', 'random numbers'].map((name) => element('option', { text: name })));
    const shapes = this.inputs.map(({ name, shape }) => (shape.some((size) => size < 0)
      ? element('input', { type: 'text', size: '12', value: shape.map(() => 1).join(','), 'aria-label': `Shape of ${name}` }) : null));
    const start = element('button', { type: 'button', text: 'Run once', click: () => this.guard(() => this.takeNumbers(what.value, shapes)) });
    const list = (title, tensors, more) => tensors.flatMap((tensor, i) => [element('dt', { text: title }),
      element('dd', {}, `${tensor.name}: ${tensor.datatype} [${tensor.shape.map((size) => (size < 0 ? 'any' : size)).join(', ')}] `, more ? more[i] || '' : '')]);
    this.body.append(element('div', { class: 'actions' }, start, element('label', { text: 'on ' }, what)),
      element('details', { open: shapes.some(Boolean) }, element('summary', { text: 'Inputs and outputs' }),
        element('dl', {}, ...list('input', this.inputs, shapes), ...list('output', this.outputs))));
  }

  async takeNumbers(what, shapes) {
    const inputs = this.inputs.map((tensor, i) => {
      const shape = shapes[i] ? shapes[i].value.split(',').map(Number) : tensor.shape;
      if (!shape.every((size) => Number.isInteger(size) && size >= 0) || elementsOf(shape) > 1 << 26)
        throw new GatewayError(`The shape of ${tensor.name} is not sizes with commas, or too large.`, false);
      const isReal = /^B?FP?\d/.test(tensor.datatype);
      const make = { zeros: () => 0, ones: () => 1, 'random numbers': isReal ? () => Math.random() * 2 - 1 : () => Math.round(Math.random()) }[what];
      return { ...tensor, shape, bytes: encode(tensor.datatype, Float32Array.from({ length: elementsOf(shape) }, make)) };
    });
    const outputs = await this.run(inputs);
    this.stopCamera();
    this.result.replaceChildren(...outputs.map((output) => this.describe(output)));
  }

  // --- answers ---

  describe(output) {
    const title = element('h4', { text: `${output.name}: ${output.classes ? 'its greatest elements' : `${output.datatype} [${output.shape.join(', ')}]`}` });
    if (output.classes) {
      const full = Math.max(...output.classes.map(({ value }) => Math.abs(value)), 1e-9);
      return element('div', {}, title, bars(output.classes.map(({ value, index, label }) => [this.labelOf(index, label), value, valueText(value)]), full));
    }
    const { data } = output;
    if (!data || !data.length) return element('div', {}, title, element('p', { text: 'no elements' }));
    let least = 0, greatest = 0, sum = 0;
    data.forEach((value, i) => {
      if (value < data[least]) least = i;
      if (value > data[greatest]) greatest = i;
      sum += Number(value);
    });
    const first = Array.from(data.subarray(0, 24), valueText).join('  ');
    return element('div', {}, title,
      data.length > 1 ? element('p', { class: 'soft', text: `least ${valueText(data[least])} (element ${least}), greatest ${valueText(data[greatest])} (element ${greatest}), mean ${valueText(sum / data.length)}` }) : null,
      element('p', { class: 'values', text: data.length > 24 ? `${first}  …` : first }));
  }
}

// Whether an output is one row of scores, of which the greatest are what is asked for.
function isRanking({ shape, datatype }) {
  return datatype.startsWith('FP') && shape.length > 0 && shape.slice(0, -1).every((size) => size === 1) && shape.at(-1) > 1;
}
