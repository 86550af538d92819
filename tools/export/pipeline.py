# SPDX-License-Identifier: BSD-3-Clause
"""Export a model for a backend: a program, and a bundled program with inputs and expected outputs.

Each export runs in its own process, forked after the import of PyTorch: vendors' compilers abort, leak memory and change
global state, which must not affect the next export. Its output goes to a log beside the program, which is kept only if
the export failed.

Expected outputs are those of the original runtime if it has every backend of the program, else those of PyTorch for the
same module after quantization. The original runtime runs in one more process, because it aborts on some programs that
it cannot run.
"""

import copy
import importlib
import io
import logging
import os
import pickle
import shutil
import signal
import sys
import time
import traceback
from pathlib import Path

import backends
from report import Result


class Died(Exception):
    """A process of ours ended without an answer."""


def in_child(function, log=None):
    """What @function answers, run in a forked process; Died if it did not live to answer. With @log, a path, what it
    prints goes there."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reader)
            if log:
                fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
                os.dup2(fd, 1)
                os.dup2(fd, 2)
            answer = pickle.dumps(function())
            with os.fdopen(writer, "wb") as out:
                out.write(answer)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except OSError:
                    pass
            os._exit(status)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as answer:
            answer = answer.read()
    except BaseException:  # an interrupt: what it was doing is of no use any more
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        raise Died(f"its process was ended by {signal.Signals(os.WTERMSIG(status)).name}")
    if status != 0 or not answer:
        raise Died(f"its process ended with {os.waitstatus_to_exitcode(status)} and no answer")
    return pickle.loads(answer)


def sentence(error):
    """An error as one line: the first of what caused it, which is where people put what matters."""
    while error.__cause__:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if len(text) <= 300 else text[:297] + "..."


def quantized(program, method, quantizer):
    import torch
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    for inputs in method.calibration or method.cases:
        prepared(*inputs)
    converted = convert_pt2e(prepared)
    return converted, torch.export.export(converted, method.cases[0], dynamic_shapes=method.dynamic_shapes, strict=True)


def lower(fixture, recipe):
    """A program manager, and by method's name the module whose answers are the reference."""
    import torch
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

    if fixture.lower:
        return fixture.lower(recipe)
    programs, references = {}, {}
    copied = {} if fixture.shares else None  # what modules have in common, their copies have
    for name, method in fixture.methods.items():
        if recipe.transform:
            recipe.transform(method.module)
        if recipe.lower:
            if len(fixture.methods) != 1:
                raise backends.Unavailable("it takes programs of one method only")
            manager, references[name] = recipe.lower(method.module, method.cases[0], recipe.quantizer)
            return manager, references
        references[name] = copy.deepcopy(method.module, copied)
        program = torch.export.export(method.module, method.cases[0], dynamic_shapes=method.dynamic_shapes, strict=True)
        if recipe.quantizer:
            references[name], program = quantized(program, method, recipe.quantizer)
        programs[name] = program
    edge = to_edge_transform_and_lower(programs, partitioner=recipe.partitioners,
                                       compile_config=EdgeCompileConfig(_check_ir_validity=False, **fixture.edge),
                                       constant_methods=fixture.constants or None)
    return edge.to_executorch(ExecutorchBackendConfig(external_constants=fixture.external, **fixture.emit)), references


def consists(program):
    """Of what a program consists, "2 XnnpackBackend, 13 kernels", and which backends it needs."""
    counts, n_kernels = {}, 0
    for plan in program.execution_plan:
        for chain in plan.chains:
            for instruction in chain.instructions:
                kind = type(instruction.instr_args).__name__
                if kind == "DelegateCall":
                    name = plan.delegates[instruction.instr_args.delegate_index].id
                    counts[name] = counts.get(name, 0) + 1
                n_kernels += kind == "KernelCall"
    text = [f"{n} {name}" for name, n in counts.items()] + ([f"{n_kernels} kernels"] if n_kernels else [])
    return ", ".join(text), set(counts)


def leaves(values):
    """Tensors and numbers one after the other, however they are nested: so they are a method's inputs and outputs."""
    import torch

    return torch.utils._pytree.tree_leaves(values)


def plain(tensor):
    """A copy of its own, laid out plainly: what is bundled is the whole storage."""
    import torch

    return tensor.detach().clone(memory_format=torch.contiguous_format)


def flat(answer):
    import torch

    return [plain(torch.as_tensor(leaf)) for leaf in leaves(answer)]


def by_eager(fixture, references):
    import torch

    answers, modules = {}, copy.deepcopy(references)
    with torch.no_grad():
        for name, method in sorted(fixture.methods.items()):
            answers[name] = [flat(modules[name](*copy.deepcopy(inputs))) for inputs in method.cases]
    return answers


def by_original(fixture, pte, data):
    """What the original runtime answers. Its outputs lie in arenas that the next run overwrites: copied at once. Methods of one
    program have the same arenas there, and loading one puts its initial values into them: all before any runs."""
    import torch
    from executorch.runtime import Runtime

    def run():
        program = Runtime.get().load_program(str(pte), data_path=data)
        answers, loaded = {}, {}
        for name in fixture.methods if fixture.shares else ():
            loaded[name] = program.load_method(name)
        for name, method in sorted(fixture.methods.items()):
            ready = loaded.get(name) or program.load_method(name)
            answers[name] = [flat(ready.execute(leaves(inputs))) for inputs in method.cases]
        kept = io.BytesIO()
        torch.save(answers, kept)
        return kept.getvalue()

    return torch.load(io.BytesIO(in_child(run)))


def expected(fixture, references, recipe, needed, pte, data):
    """Expected outputs, and where they are from: the original's, unless they are of no use."""
    from executorch.runtime import Runtime

    eager = by_eager(fixture, references)
    absent = needed - set(Runtime.get().backend_registry.registered_backend_names)
    if fixture.expect_eager or absent:
        return eager, "PyTorch"
    try:
        answers = by_original(fixture, pte, data)
    except Died as died:
        print(f"the original runtime was of no help: {died}", file=sys.stderr)
        return eager, "PyTorch (the original failed)"
    worst = far = 0.0
    for name in eager:
        for a, b in ((a, b) for x, y in zip(eager[name], answers[name]) for a, b in zip(x, y)):
            if a.shape == b.shape and a.numel() and a.dtype == b.dtype:
                difference = float((a.double() - b.double()).nan_to_num().abs().max())
                worst = max(worst, difference)
                far = max(far, difference / (float(a.double().nan_to_num().abs().max()) + 1e-3))
    if far > 0.5 and not recipe.quantizer and not recipe.transform:
        return eager, f"PyTorch (the original is {worst:.1g} from it)"
    return answers, f"original ({worst:.1g} from PyTorch)"


def bundle(fixture, answers, pte):
    import torch
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer

    def bundled(inputs):
        return [plain(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves(inputs)]

    suites = [MethodTestSuite(name, [MethodTestCase(bundled(inputs), outputs)
                                     for inputs, outputs in zip(method.cases, answers[name])])
              for name, method in fixture.methods.items()]
    return serialize_from_bundled_program_to_flatbuffer(BundledProgram(None, suites, str(pte)))


def export_one(model, backend, pte):
    """Write @pte and the bundled program beside it; a Result with everything but the time it took."""
    import torch

    torch.set_num_threads(1)
    # Before the model: what a backend lacks is known at once.
    recipe = backends.recipe(backend)
    module, function = model.build.split(":")
    fixture = getattr(importlib.import_module("models." + module), function)(**model.options)
    start = time.monotonic()
    if recipe.write:
        with torch.no_grad():
            file = recipe.write(fixture, pte.with_suffix(""))
        return Result(model.name, backend, time.monotonic() - start, "", file.stat().st_size, 0, file.suffix, "PyTorch")
    with torch.no_grad():
        manager, references = lower(fixture, recipe)
    seconds = time.monotonic() - start
    pte.write_bytes(manager.buffer)
    data = []
    if fixture.external:
        manager.write_tensor_data_to_file(str(pte.parent))
        data = sorted(pte.parent.glob("*.ptd"))
    parts, needed = consists(manager.executorch_program)
    n_data = sum(path.stat().st_size for path in data)
    n_pte, n_bpte, source = pte.stat().st_size + n_data, 0, "not bundled"
    if fixture.is_bundled:
        answers, source = expected(fixture, references, recipe, needed, pte, data[0] if data else None)
        bpte = pte.with_suffix(".bpte")
        bpte.write_bytes(bundle(fixture, answers, pte))
        n_bpte = bpte.stat().st_size + n_data
    return Result(model.name, backend, seconds, "", n_pte, n_bpte, parts, source)


def export(model, backend, out):
    """One export in a process of its own; a Result in any case."""
    pte = out / (model.file(backend) + ".pte")
    log = pte.with_suffix(".log")
    pte.parent.mkdir(parents=True, exist_ok=True)
    for old in (pte, pte.with_suffix(".bpte"), log):
        old.unlink(missing_ok=True)
    start = time.monotonic()

    def run():
        try:
            return export_one(model, backend, pte)
        except backends.Unavailable as needs:
            return Result(model.name, backend, 0, str(needs), is_lacking=True)
        except BaseException as error:
            traceback.print_exc()
            return Result(model.name, backend, time.monotonic() - start, sentence(error))

    try:
        result = in_child(run, log)
    except Died as died:
        result = Result(model.name, backend, time.monotonic() - start, str(died))
    except KeyboardInterrupt:
        for half in (pte, pte.with_suffix(".bpte"), log):
            half.unlink(missing_ok=True)
        raise
    if not result.failure or result.is_lacking or log.stat().st_size == 0:
        log.unlink()
    else:
        result.failure += f" (its log: {log.relative_to(out)})"
    if not result.failure:
        return result
    for half in (pte, pte.with_suffix(".bpte")):
        half.unlink(missing_ok=True)
    return result


def export_all(pairs, out):
    """Results of @pairs, and whether that was interrupted: then those there are."""
    out.mkdir(parents=True, exist_ok=True)
    # For `inferctl verify`: how closely quantized programs are to be met.
    shutil.copyfile(Path(__file__).with_name("tolerances.txt"), out / "tolerances.txt")
    logging.disable(logging.WARNING)  # what the packages say of each other
    import executorch.exir  # noqa: F401  imported once, for every process that is forked
    import executorch.runtime  # noqa: F401

    logging.disable(logging.NOTSET)
    results = []
    for i, (model, backend) in enumerate(pairs, 1):
        print(f"[{i}/{len(pairs)}] {model.name} {backend}: ", end="", flush=True)
        try:
            results.append(export(model, backend, out))
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            return results, True
        last = results[-1]
        print(("lacking: " if last.is_lacking else "failed: ") + last.failure if last.failure else f"{last.seconds:.1f} s",
              flush=True)
    return results, False
