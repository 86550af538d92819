
// SPDX-License-Identifier: BSD-3-Clause
// Sentences: WordPiece, the tokens of BERT's family, and how alike two embeddings are.
//
// A model's folder has no word for its vocabulary, so the page's user brings it: vocab.txt, one token a line, which lies
// beside the weights that the model was made of.

// Whether inputs are token ids and what goes with them: INT64 or INT32 of one shape [1, N].
function isSentence(inputs) {
  const first = inputs[0];
  return inputs.length > 0 && inputs.length <= 3 && first.shape.length === 2 && Math.abs(first.shape[0]) === 1 &&
    inputs.every(({ datatype, shape }) => /^INT(32|64)$/.test(datatype) && String(shape) === String(first.shape)) &&
    (first.shape[1] < 0 || first.shape[1] >= 8);
}

class WordPiece {
  constructor(text) {
    const lines = text.split(/\r?\n/);
    if (lines.at(-1) === '') lines.pop();
    this.ids = new Map(lines.map((line, i) => [line, i]));
    for (const token of ['[CLS]', '[SEP]', '[UNK]'])
      if (!this.ids.has(token)) throw new GatewayError(`This vocabulary has no token ${token}; is it the vocab.txt of a WordPiece tokenizer?`, true);
  }

  // The longest pieces from the left. Long words are no words, as in BERT's own tokenizer.
  pieces(word) {
    const letters = [...word], found = [];
    const piece = (start, end) => this.ids.get((start ? '##' : '') + letters.slice(start, end).join(''));
    for (let start = 0, end; start < letters.length && letters.length <= 100; start = end) {
      end = letters.length;
      while (end > start && piece(start, end) === undefined) end--;
      if (end === start) return [this.ids.get('[UNK]')];
      found.push(piece(start, end));
    }
    return found.length ? found : [this.ids.get('[UNK]')];
  }

  // The ids of a sentence, at most @most of them; in lower case, without accents.
  encode(text, most) {
    const plain = text.toLowerCase().normalize('NFD').replace(/\p{Mn}/gu, '');
    const words = plain.match(/[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) || [];
    const ids = words.flatMap((word) => this.pieces(word)).slice(0, most - 2);
    return [this.ids.get('[CLS]'), ...ids, this.ids.get('[SEP]')];
  }
}

// The inputs for the tokens @ids: which input is the mask, and which the kind of token, their names say, else their order.
function tokenInputs(tensors, ids) {
  const size = tensors[0].shape[1] > 0 ? tensors[0].shape[1] : ids.length;
  return tensors.map((tensor, i) => {
    const isMask = /mask/i.test(tensor.name) || !/ids|type|segment/i.test(tensor.name) && i === 1;
    const isKind = !isMask && (/type|segment/i.test(tensor.name) || i === 2);
    const numbers = new Array(size).fill(0);
    ids.forEach((id, at) => { numbers[at] = isMask ? 1 : isKind ? 0 : id; });
    return { name: tensor.name, datatype: tensor.datatype, shape: [1, size], bytes: encode(tensor.datatype, numbers) };
  });
}

// One vector for a sentence: the output [1, D], or the mean of [1, N, D] over the sentence's @n tokens.
function embeddingOf(output, n) {
  const { shape, data } = output;
  if (shape.length !== 3) return data;
  const size = shape[2], mean = new Float32Array(size), rows = Math.min(n, shape[1]);
  for (let row = 0; row < rows; row++)
    for (let i = 0; i < size; i++) mean[i] += data[row * size + i] / rows;
  return mean;
}

// The cosine of the angle between two vectors.
function likeness(a, b) {
  let both = 0, ofA = 0, ofB = 0;
  for (let i = 0; i < a.length; i++) {
    both += a[i] * b[i];
    ofA += a[i] * a[i];
    ofB += b[i] * b[i];
  }
  return both / Math.sqrt(ofA * ofB || 1);
}
