#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Find the sentences that mean the same, with the sentence embeddings of MiniLM.

    sentences.py [--model NAME] --vocabulary vocab.txt QUESTION <SENTENCES

Prints the lines of the standard input with their similarity to QUESTION, the most similar first. vocab.txt is the
WordPiece vocabulary of the model (of all-MiniLM-L6-v2: the file of that name beside its weights). All sentences are
in flight at once, so the daemon uses each core that it has.
"""
import argparse
import asyncio
import math
import re
import sys
import unicodedata

import inferd


class WordPiece:
    """BERT's tokens without case and accents."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.ids = {line.rstrip("\n"): i for i, line in enumerate(file)}

    def pieces(self, word):
        found, start = [], 0
        while start < len(word):
            end = next((e for e in range(len(word), start, -1) if self.name(word, start, e) in self.ids), None)
            if end is None:
                return [self.ids["[UNK]"]]
            found.append(self.ids[self.name(word, start, end)])
            start = end
        return found

    @staticmethod
    def name(word, start, end):
        return ("##" if start else "") + word[start:end]

    def __call__(self, text, n):
        plain = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c))
        ids = [i for word in re.findall(r"\w+|[^\w\s]", plain) for i in self.pieces(word)]
        ids = [self.ids["[CLS]"], *ids[:n - 2], self.ids["[SEP]"]]
        return ids + [0] * (n - len(ids)), [1] * len(ids) + [0] * (n - len(ids))


async def embed(bindings, tokens, text):
    """The embedding of @text, of length 1."""
    b = await bindings.get()
    ids, mask = tokens(text, b.inputs[0].shape[1])
    b.inputs[0][0], b.inputs[1][0] = ids, mask
    await b.infer_async()
    vector = b.outputs[0][0].tolist()
    bindings.put_nowait(b)
    length = math.sqrt(sum(v * v for v in vector))
    return [v / length for v in vector]


async def main():
    parser = argparse.ArgumentParser(description="Find the sentences that mean the same.")
    parser.add_argument("--model", default="minilm")
    parser.add_argument("--vocabulary", required=True)
    parser.add_argument("question")
    options = parser.parse_args()
    lines, tokens, bindings = sys.stdin.read().splitlines(), WordPiece(options.vocabulary), asyncio.Queue()
    with inferd.connect() as d:
        m = d.open(options.model)
        for _ in range(8):
            bindings.put_nowait(m.bind())
        question, *vectors = await asyncio.gather(*(embed(bindings, tokens, text) for text in [options.question, *lines]))
    for value, line in sorted(((sum(map(float.__mul__, question, v)), line) for v, line in zip(vectors, lines)), reverse=True):
        print(f"{value:.3f}\t{line}")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (inferd.Error, OSError) as error:
        sys.exit(f"sentences: {error}")
