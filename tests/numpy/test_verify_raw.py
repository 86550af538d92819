#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the verdicts of `inferctl verify` with NumPy, on its raw outputs.

    test_verify_raw.py INFERCTL [--corpus ARCHIVE] [--seed N] [--cases N]

Random bundled programs (of ../shared/corpus if it exists, else of tests/corpus) run with `verify --local --raw`. NumPy
compares the outputs with the expected ones, which bundle.py reads without our C code. Each verdict must be the same, and
at least --cases test cases must be compared. Before that, the comparison itself is tested: it must notice changed outputs
and changed expectations.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np

import bundle

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ARCHIVE = os.path.join(os.path.dirname(TOP), "shared", "corpus", "corpus.tar.zst")
COMMITTED = os.path.join(TOP, "tests", "corpus")
FOLDERS = ("portable", "opdb", "xnnpack", "xnnpack_qd8", "xnnpack_qs8c", "xnnpack_qs8t")
QUANTIZED = ("xnnpack_q",)  # atol 0.1, rtol 0.04: the README of the corpus
DATATYPES = {"UINT8": "u1", "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4",
             "FP64": "<f8", "COMPLEX64": "<c8", "COMPLEX128": "<c16", "BOOL": "?", "BF16": "bf16", "UINT16": "<u2",
             "UINT32": "<u4", "UINT64": "<u8"}


def list_archive(archive):
    out = subprocess.run(["tar", "--zstd", "-tf", archive], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [p for p in out.split("\n") if p.endswith(".bpte") and p.lstrip("./").split("/")[0] in FOLDERS]


def choose(archive, rng, n, where):
    """Put @n random programs below @where, by folder; True if these were all there are."""
    if os.path.exists(archive):
        names = list_archive(archive)
        picked = rng.sample(names, min(n, len(names)))
        listing = os.path.join(where, "picked")
        with open(listing, "w") as f:
            f.write("\n".join(picked) + "\n")
        subprocess.run(["tar", "--zstd", "-xf", archive, "-C", where, "-T", listing], check=True)
        os.unlink(listing)
        return len(picked) == len(names)
    names = [os.path.join(folder, f) for folder, _, files in os.walk(COMMITTED) for f in files if f.endswith(".bpte")]
    for name in rng.sample(names, min(n, len(names))):
        target = os.path.join(where, os.path.relpath(name, COMMITTED))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(name, target)
    return n >= len(names)


def verify(inferctl, where, raw):
    """Run it; the manifest. Its exit status must agree with its own sum."""
    r = subprocess.run([inferctl, "verify", "--local", "--quiet", "--raw", raw, where], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True, check=False)
    last = r.stdout.strip().split("\n")[-1]
    words = last.replace(",", "").split()
    if len(words) != 6 or words[1::2] != ["passed", "failed", "skipped"]:
        sys.exit(f"verify ended with {r.returncode} and without a sum:\n{r.stdout[-2000:]}")
    if r.returncode != (1 if int(words[2]) else 0):
        sys.exit(f"verify exits with {r.returncode} after '{last}'")
    with open(os.path.join(raw, "manifest.json")) as f:
        manifest = json.load(f)
    for k, verdict in enumerate(("passed", "failed", "skipped")):
        if int(words[2 * k]) != sum(f["verdict"] == verdict for f in manifest["files"]):
            sys.exit(f"the manifest does not agree with '{last}'")
    return manifest, r.stdout


def got_value(raw, output):
    if output["kind"] != "Tensor":
        return output.get("value"), output["kind"].lower()
    with open(os.path.join(raw, output["file"]), "rb") as f:
        data = f.read()
    dtype = DATATYPES[output["datatype"]]
    return bundle.as_array(data, dtype, output["shape"], output["dim_order"]), dtype


def is_close(got, want, is_quantized):
    """Whether one output is as expected."""
    (a, a_type), (b, b_type) = got, want
    if b_type in ("int", "bool"):
        return a == b
    if b_type == "double":
        a, b = np.float64(np.nan if a is None else a), np.float64(b)
    elif a_type != b_type or a.shape != b.shape:
        return False
    elif b_type in ("<c8", "<c16"):
        return all(is_close((x, "<f8"), (y, "<f8"), is_quantized) for x, y in ((a.real, b.real), (a.imag, b.imag)))
    elif b_type not in ("<f2", "<f4", "<f8", "bf16"):
        return np.array_equal(a, b)
    atol, rtol = (1e-3, 1e-2) if b_type in ("<f2", "bf16") else (1e-4, 1e-3)
    if is_quantized:
        atol, rtol = 0.1, 0.04
    a, b = np.asarray(a, "f8"), np.asarray(b, "f8")
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        same = np.where(finite, np.abs(a - b) <= atol + rtol * np.abs(b), (a == b) | (np.isnan(a) & np.isnan(b)))
    return bool(same.all())


def judge(where, raw, entry):
    """(does every case hold, how many cases were judged, what did not hold)"""
    path = entry["path"]
    is_quantized = os.path.relpath(path, where).startswith(QUANTIZED)
    wanted, n = dict(bundle.expected(path)), 0
    for method in entry["methods"]:
        cases = wanted[method["method"]]
        for k, case in enumerate(method["cases"]):
            if "outputs" not in case:
                return False, n, f"case {k}: {case['error']}"
            if len(cases[k]) > len(case["outputs"]):
                return False, n, f"case {k}: {len(case['outputs'])} outputs of {len(cases[k])}"
            for i, want in enumerate(cases[k]):
                if want is not None and not is_close(got_value(raw, case["outputs"][i]), want, is_quantized):
                    return False, n, f"case {k}, output {i}"
            n += 1
        if len(cases) != len(method["cases"]):
            return False, n, f"{len(method['cases'])} cases of {len(cases)} were run"
    return n > 0, n, "nothing ran"


def check_the_judge(inferctl, where, raw, manifest):
    """A changed output and a changed expectation are noticed, by us and by verify."""
    for entry in manifest["files"]:
        if entry["verdict"] != "passed" or not entry["methods"]:
            continue
        output = entry["methods"][0]["cases"][0]["outputs"][0]
        suite = bundle.expected(entry["path"])[0][1][0][0]
        if output.get("datatype") != "FP32" or suite is None or suite[0].size == 0:
            continue
        wrong = np.asarray(suite[0], "<f4") + np.float32(1000)
        stored = np.ascontiguousarray(np.transpose(suite[0], output["dim_order"]) if suite[0].ndim else suite[0])
        with open(entry["path"], "rb") as f:
            data = f.read()
        at = data.find(stored.astype("<f4").tobytes())
        if at < 0 or stored.nbytes < 16 or not np.isfinite(suite[0]).all():
            continue
        kept = open(os.path.join(raw, output["file"]), "rb").read()
        with open(os.path.join(raw, output["file"]), "wb") as f:
            f.write(wrong.tobytes())
        assert not judge(where, raw, entry)[0], "the judge does not notice a changed output"
        with open(os.path.join(raw, output["file"]), "wb") as f:
            f.write(kept)
        assert judge(where, raw, entry)[0]

        with tempfile.TemporaryDirectory() as folder:
            target = os.path.join(folder, "changed.bpte")
            at = data.rfind(stored.astype("<f4").tobytes())
            with open(target, "wb") as f:
                f.write(data[:at] + (stored.astype("<f4") + np.float32(1000)).tobytes() + data[at + stored.nbytes:])
            changed, text = verify(inferctl, folder, os.path.join(folder, "raw"))
            if changed["files"][0]["verdict"] == "failed":
                print(f"a changed expectation is noticed: {text.strip().splitlines()[0]}")
                return
    sys.exit("no program was fit to try the judge on")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("inferctl")
    p.add_argument("--corpus", default=ARCHIVE)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--cases", type=int, default=50)
    args = p.parse_args()
    rng = random.Random(args.seed)
    print(f"seed {args.seed}, {'the shared corpus' if os.path.exists(args.corpus) else 'tests/corpus'}")

    n_files, n_cases, n_wrong, n_skipped, n_disagree = 100, 0, 0, 0, 0
    while True:
        with tempfile.TemporaryDirectory() as tmp:
            where, raw = os.path.join(tmp, "programs"), os.path.join(tmp, "raw")
            os.mkdir(where)
            are_all = choose(args.corpus, rng, n_files, where)
            with open(os.path.join(where, "tolerances.txt"), "w") as f:
                f.write("xnnpack_q  atol 0.1 rtol 0.04  # quantized\n")
            manifest, _ = verify(args.inferctl, where, raw)
            n_skipped = sum(f["verdict"] == "skipped" for f in manifest["files"])
            if len(manifest["files"]) - n_skipped < args.cases and not are_all:
                n_files *= 3  # operators that are not there yet: a larger sample
                continue
            for entry in manifest["files"]:
                if entry["verdict"] == "skipped":
                    continue
                holds, n, why = judge(where, raw, entry)
                n_cases += n
                name = os.path.relpath(entry["path"], where)
                if holds != (entry["verdict"] == "passed"):
                    n_disagree += 1
                    print(f"{name}: verify says {entry['verdict']}, NumPy says {'right' if holds else why}")
                elif not holds:
                    n_wrong += 1
                    print(f"{name}: wrong, and both say so ({why})")
            check_the_judge(args.inferctl, where, raw, manifest)
            break
    print(f"NumPy judged {n_cases} cases of {len(manifest['files']) - n_skipped} programs "
          f"({n_skipped} skipped): {n_wrong} wrong, {n_disagree} verdicts differ")
    if n_cases < args.cases:
        sys.exit(f"only {n_cases} cases could be judged, {args.cases} are wanted")
    sys.exit(1 if n_wrong or n_disagree else 0)


if __name__ == "__main__":
    main()
