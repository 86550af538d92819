# SPDX-License-Identifier: BSD-3-Clause
"""Parse the command line of tools/export/export."""

import argparse
import textwrap

import backends
import catalog

ABOUT = """\
Export models to ExecuTorch programs: NAME/BACKEND.pte, and .bpte with inputs and expected outputs.

The first run installs the packages of requirements.txt (7 GB) into a folder in the user's cache. A backend that fails
does not stop the others; the exit status is then 1. Ctrl-C ends it with status 130 and a table of the exports so far."""


def parser():
    p = argparse.ArgumentParser(prog="export", description=ABOUT,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", nargs="+", metavar="NAME", default=[], help="which models")
    p.add_argument("--all", action="store_true", help="every model")
    p.add_argument("--survey", action="store_true", help="every program of the survey")
    p.add_argument("--peers", action="store_true", help="every network of tests/bench/peers.py")
    p.add_argument("--backends", nargs="+", metavar="BACKEND",
                   help="for which backends, in place of those the list names for the model; A+B asks A first and "
                        "B for what it leaves")
    p.add_argument("--out", metavar="DIR", default="exported", help="where to (./exported)")
    p.add_argument("--list", action="store_true", help="print the models and backends, and stop")
    p.add_argument("--install", action="store_true", help="see that the packages are there, and stop")
    p.add_argument("--clean", action="store_true", help="delete environments of other requirements, and stop")
    return p


def parse(argv):
    """The arguments, checked; a mistake is said and ends with 2, as argparse does."""
    p = parser()
    args = p.parse_args(argv)
    if args.list or args.clean or args.install:
        return args
    if bool(args.model) + args.all + args.survey + args.peers != 1:
        p.error("say either --model NAME or --all, --survey or --peers (--list shows the names)")
    for name in args.model:
        if name not in catalog.BY_NAME:
            p.error(f"there is no model {name!r}; known: {', '.join(catalog.BY_NAME)}")
    try:
        args.backends = [backends.canonical(name) for name in args.backends or []]
    except KeyError as unknown:
        known = list(backends.BACKENDS) + list(backends.ALIASES)
        p.error(f"there is no backend {unknown.args[0]!r}; known: {', '.join(known)}")
    return args


def chosen(args):
    """Pairs of a model and a backend's name, each once, in the order of the command line."""
    models = (catalog.MODELS if args.all else catalog.SURVEY if args.survey else catalog.PEERS if args.peers else
              [catalog.BY_NAME[name] for name in args.model])
    return list(dict.fromkeys((model, backend) for model in models for backend in args.backends or model.backends))


def listing():
    lines = ["models, and the backends that they are exported for:"]
    for model in catalog.MODELS:
        lines.append(f"  {model.name:20} {model.about}")
        lines += textwrap.wrap(" ".join(model.backends), 110, initial_indent=" " * 23, subsequent_indent=" " * 23,
                               break_on_hyphens=False)
    lines += ["", "programs of the survey:"]
    lines += textwrap.wrap(" ".join(model.name for model in catalog.SURVEY), 110, initial_indent="  ", subsequent_indent="  ")
    lines += ["", "networks of tests/bench/peers.py:"]
    lines += textwrap.wrap(" ".join(model.name for model in catalog.PEERS), 110, initial_indent="  ", subsequent_indent="  ")
    lines += ["", "backends:"]
    lines += [f"  {name:21} {about}" for name, (_, about) in backends.BACKENDS.items()]
    lines += [f"  {short:21} short for {name}" for short, name in backends.ALIASES.items()]
    return "\n".join(lines)
