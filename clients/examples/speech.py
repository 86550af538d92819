#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Find speech in a sound, with silero_vad: a stateful model that takes 512 samples at a time.

    speech.py [--model NAME] [--threshold P] [FILE.wav]

Prints the begin and end of each piece of speech, in seconds. Without a file, raw samples (16 kHz, mono, 16 bits) come from
the standard input, such as a microphone's:

    arecord -q -f S16_LE -r 16000 -c 1 -t raw | speech.py
"""
import argparse
import array
import sys
import wave

import inferd

RATE, N = 16000, 512


def frames(path):
    """Frames of N samples, -1 to 1; the last one ends in zeros."""
    if path:
        with wave.open(path, "rb") as sound:
            if (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) != (RATE, 1, 2):
                sys.exit(f"speech: {path} is not 16 kHz, mono, 16 bits")
            while data := sound.readframes(N):
                yield as_floats(data)
    else:
        while data := sys.stdin.buffer.read(2 * N):
            yield as_floats(data)


def as_floats(data):
    samples = array.array("h", data[:len(data) // 2 * 2])
    if sys.byteorder == "big":
        samples.byteswap()
    return array.array("f", [s / 32768 for s in samples] + [0] * (N - len(samples)))


def main():
    parser = argparse.ArgumentParser(description="Find speech in a sound.")
    parser.add_argument("--model", default="silero_vad")
    parser.add_argument("--threshold", type=float, default=0.5, help="from this probability on it is speech")
    parser.add_argument("--probabilities", action="store_true", help="print that of each frame")
    parser.add_argument("sound", nargs="?")
    options = parser.parse_args()
    with inferd.connect() as d:
        b = d.open(options.model).bind()  # the state of this stream belongs to this Method
        begin, at = None, 0.0
        for i, frame in enumerate(frames(options.sound)):
            b.inputs[0][:] = frame
            b.infer()
            probability = memoryview(b.outputs[0]).cast("B").cast("f")[0]
            at = i * N / RATE
            if options.probabilities:
                print(f"{at:.3f}\t{probability:.6f}")
            elif begin is None and probability >= options.threshold:
                begin = at
            elif begin is not None and probability < options.threshold:
                print(f"{begin:.3f}\t{at:.3f}", flush=True)
                begin = None
        if begin is not None:
            print(f"{begin:.3f}\t{at + N / RATE:.3f}")


if __name__ == "__main__":
    try:
        main()
    except (inferd.Error, OSError, wave.Error) as error:
        sys.exit(f"speech: {error}")
