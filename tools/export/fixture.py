# SPDX-License-Identifier: BSD-3-Clause
"""Fixture: what a file of models/ returns for an export.

It has one or several methods, each with its module, the inputs for tracing, and the test cases of the bundled program.
Test cases of a method run in order, so the module's buffers carry over. If methods share their buffers, these also carry
over from one method to the next, in the order of their names, as the bundler writes them.
"""

from dataclasses import dataclass, field


@dataclass
class Method:
    module: object
    cases: list  # tuples of inputs, run in this order; the first one is also what is traced
    dynamic_shapes: object = None
    calibration: list = None  # tuples of inputs for static quantization; the cases where there are none


@dataclass
class Fixture:
    methods: dict  # by name; most have one, "forward"
    external: object = False  # weights go to a .ptd beside the program; or to several: a function of the node to a name
    expect_eager: bool = False  # expected outputs are PyTorch's even where the original runtime could be asked
    constants: dict = field(default_factory=dict)  # methods that only answer a number or a string
    is_bundled: bool = True  # the bundler has words for all of its inputs
    edge: dict = field(default_factory=dict)  # more options for EdgeCompileConfig
    emit: dict = field(default_factory=dict)  # and for ExecutorchBackendConfig
    lower: object = None  # (recipe) -> (program manager, reference modules by method), in place of the usual way

    @property
    def shares(self):
        """Whether its methods share their mutable buffers, and so what one case leaves in them goes on to the next method's."""
        return getattr(self.emit.get("memory_planning_pass"), "share_mutable_buffers", False)

    @staticmethod
    def of(module, *cases, **options):
        """A fixture of the one method `forward`; @options are Method's and Fixture's."""
        own = {key: options.pop(key) for key in ("dynamic_shapes", "calibration") if key in options}
        return Fixture({"forward": Method(module and module.eval(), list(cases), **own)}, **options)
