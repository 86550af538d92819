#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rules of inferd's source tree that a machine can check.

    lint.py [--root DIR] CHECK...      checks: includes circles calls text words shape format

Each broken rule is one line, `file:line: rule: what`; the exit status is 1 when
there is one. The tables below are the rules. test_lint.py breaks each of them once,
so that a check that finds nothing any more is noticed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

SKIP = 77

# --- who may include whom ---------------------------------------------------
#
# Folder: the folders whose headers it may include, besides its own. The longest
# matching folder (or file) decides. This is the table of docs/architecture.md.
# runtime/platform gives the runtime a Linux process's heap, clock, files and
# mappings; the runtime's core must never see it.

BASE = ["runtime/base"]
CORE = BASE + ["runtime", "runtime/program"]  # the runtime's headers; not its kernels, not its platform
PLATFORM = BASE + ["runtime/platform"]
KERNELS = CORE + ["runtime/kernels", "runtime/kernels/engine", "runtime/kernels/simd"]
DELEGATE = CORE + ["delegates", "delegates/graph"]
XNNPACK = DELEGATE + ["delegates/xnnpack/ukernels"]
DAEMON = CORE + PLATFORM + ["config", "daemon/base"]

MAY_INCLUDE = {
    "runtime/base": [],
    "runtime/program": CORE,
    "runtime": CORE,
    "runtime/kernels": CORE,
    "runtime/kernels/simd": CORE,
    "runtime/kernels/engine": KERNELS,
    "runtime/kernels/aten": KERNELS,
    "runtime/kernels/cadence": KERNELS,
    "runtime/kernels/llama": KERNELS,
    "runtime/kernels/quantized": KERNELS,
    "runtime/platform": CORE,
    "runtime/profile": CORE,
    # inferd-delegate.h, the table of the delegates that are compiled in, and what callers of such a table share
    "delegates": CORE + ["runtime/kernels"],
    "delegates/graph": CORE,
    "delegates/direct": DELEGATE,
    "delegates/opencl": DELEGATE + PLATFORM,
    "delegates/opencl/steps": DELEGATE + PLATFORM + ["delegates/opencl"],
    "delegates/plugin": CORE + PLATFORM + ["delegates"],
    "delegates/plugin/host": CORE + PLATFORM + ["delegates", "delegates/plugin"],
    # an in-process host (`isolation = thread`) needs two headers of the host's side
    "delegates/plugin/proxy": CORE + PLATFORM + ["delegates", "delegates/plugin", "delegates/plugin/host"],
    # runs whole programs: the runtime with the delegates that are compiled in, in a process like a plug-in's
    "delegates/program": CORE + PLATFORM + ["runtime/kernels", "runtime/profile", "delegates", "delegates/direct",
                                            "delegates/plugin", "delegates/plugin/host"],
    # tries delegates of both kinds
    "delegates/check": CORE + PLATFORM + ["delegates", "delegates/direct", "delegates/plugin/proxy"],
    "delegates/xnnpack/ukernels": BASE,
    "delegates/xnnpack/allocator.h": [],
    "delegates/xnnpack/pool": [],
    "delegates/xnnpack/graph": XNNPACK + ["delegates/xnnpack/allocator.h"],
    "delegates/xnnpack/weights": XNNPACK + ["delegates/xnnpack/graph"],
    "delegates/xnnpack/overrides": XNNPACK + ["delegates/xnnpack/graph", "delegates/xnnpack/threads.h"],
    "delegates/xnnpack/threads.h": XNNPACK + ["delegates/xnnpack/graph", "delegates/xnnpack/allocator.h"],
    "delegates/xnnpack": XNNPACK + ["delegates/xnnpack/graph", "delegates/xnnpack/weights", "delegates/xnnpack/overrides",
                                    "delegates/xnnpack/pool",
                                    "delegates/xnnpack/threads.h", "delegates/xnnpack/allocator.h"],
    "ipc": PLATFORM,
    "config": BASE,
    # A request's way through the daemon: client -> model -> queue; what comes back comes through tables of events.
    "daemon/base": PLATFORM + ["config", "ipc"],
    "daemon/queue": DAEMON + ["ipc"],
    "daemon/model/failure": DAEMON,
    "daemon/model": DAEMON + ["ipc", "daemon/queue", "daemon/model/failure", "delegates", "delegates/direct", "delegates/plugin/proxy", "delegates/program",
                     "runtime/kernels"],
    "daemon/model/ready": DAEMON + ["daemon/queue", "daemon/model", "daemon/model/failure"],
    "daemon/context.h": DAEMON + ["ipc", "daemon/queue", "daemon/model"],
    "daemon/client": DAEMON + ["ipc", "daemon/queue", "daemon/model", "daemon/context.h", "delegates/plugin/proxy", "runtime/profile"],
    "daemon/loop": DAEMON + ["ipc", "daemon/queue", "daemon/model", "daemon/client", "daemon/context.h"],
    # Only main.c and server.c include server.h: everything else is given a context, and reaches the loop by its events.
    "daemon/loop/server.h": DAEMON + ["daemon/client", "daemon/context.h", "daemon/loop"],
    "daemon/loop/server.c": DAEMON + ["ipc", "daemon/queue", "daemon/model", "daemon/client", "daemon/context.h", "daemon/loop",
                                      "daemon/loop/server.h"],
    # `inferd --check`, which main.c calls without a server
    "daemon/loop/check.h": DAEMON,
    "daemon/loop/check.c": DAEMON + ["daemon/model", "daemon/client", "daemon/loop", "daemon/loop/check.h"],
    "daemon/main.c": DAEMON + ["daemon/loop/server.h", "daemon/loop/check.h", "daemon/context.h"],
    "clients": PLATFORM + ["ipc"],
    # `inferctl --local` runs programs in its own process.
    "clients/inferctl": CORE + PLATFORM + ["runtime/kernels", "runtime/profile", "delegates", "delegates/direct", "delegates/graph",
                                           "delegates/plugin/proxy", "ipc", "config", "clients"],
    "clients/inferctl/deploy": PLATFORM + ["runtime/program", "ipc", "config", "clients/inferctl"],
    # the Python package, over inferd.h as any application
    "clients/python": ["clients"],
    # the gateway: an application, which asks for the repository and statistics as inferctl does
    "clients/http": PLATFORM + ["ipc", "config", "clients"],
    # the plugin of GStreamer, likewise
    "clients/gstreamer": ["clients"],
    "clients/examples": [],  # <inferd.h>, as an application sees it
    "tests": ["*"],
    "tools": CORE + PLATFORM,
}
# Any other delegates/X: the runtime's headers and the engine-neutral graph, never another backend.
ANY_DELEGATE = DELEGATE

# What a folder's own tests may use on top: something to run on and to compare with, and the whole of their own module.
TESTS_MAY = KERNELS + PLATFORM + ["delegates", "delegates/direct", "tests"]

# Library's headers: the files (or folders, with a slash) that may include them. Tests may too.
LIBRARIES = [
    (r"uv\.h|uv/.*", ["daemon/"]),
    (r"protobuf-c/.*", ["ipc/message.c"]),
    (r".*\.pb-c\.h", ["ipc/message.c"]),
    (r"systemd/.*", ["daemon/loop/listener.c", "daemon/loop/notify.c", "clients/http/listener.c"]),
    (r"microhttpd\.h|zlib\.h", ["clients/http/"]),
    (r"xnnpack.*|pthreadpool\.h|cpuinfo\.h", ["delegates/xnnpack/"]),
    (r"CL/.*", ["delegates/opencl/"]),
    (r"ini\.h", ["config/"]),
    (r"jansson\.h", ["clients/"]),
    (r"nettle/.*", ["runtime/platform/"]),
    (r"gd\.h", ["clients/examples/"]),
    (r"Python\.h|pythread\.h|structmember\.h", ["clients/python/"]),
    (r"gst/.*|glib.*", ["clients/gstreamer/"]),
    (r"dlfcn\.h", ["delegates/", "tests/"]),
    # A lock: where two threads meet. The daemon's queues, a channel that a worker and the loop
    # both send on, a client library that several threads call, delegates' own, what the host keeps for them.
    (r"pthread\.h|threads\.h|semaphore\.h", ["daemon/", "delegates/", "ipc/channel.", "clients/", "runtime/platform/"]),
]

# Starting a thread is another matter than taking a lock.
THREAD_STARTERS = r"pthread_create|thrd_create|uv_thread_create(?:_ex)?|uv_queue_work|clone3?|fork|vfork"
MAY_START_THREADS = ["daemon/base/thread.c", "delegates/", "clients/inferctl"]

# The runtime's core and kernels are given memory, time and files; the C library's headers that are
# only definitions, arithmetic and bytes are all they need, and what it knows about the processor.
CORE_HEADERS = set("""assert.h errno.h float.h inttypes.h iso646.h limits.h math.h stdalign.h stdarg.h
    stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdnoreturn.h string.h tgmath.h complex.h
    sys/platform/x86.h""".split())
CORE_CALLS = r"""malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|abort|exit|fopen|fclose|fread
    |fwrite|fprintf|printf|puts|open|close|read|write|mmap|munmap|time|clock|clock_gettime|getenv|usleep
    |nanosleep|syslog|system|getpid""".replace("\n", "").replace(" ", "")

# --- what nobody may call -----------------------------------------------------

NEVER = {
    "strcpy": "give the size: memcpy or snprintf", "stpcpy": "give the size: memcpy or snprintf",
    "sprintf": "snprintf", "vsprintf": "vsnprintf", "gets": "fgets", "atoi": "strtol, and look at the rest",
    "atol": "strtol, and look at the rest", "atoll": "strtoll, and look at the rest",
    "atof": "strtod, and look at the rest", "alloca": "a size that somebody chose does not belong on the stack",
    "strtok": "strsep or strtok_r", "tmpnam": "mkstemp", "mktemp": "mkstemp",
}
NEVER_OUTSIDE_TESTS = {"strcat": "give the size: snprintf", "strncat": "give the size: snprintf"}
SLEEPS = {".c": r"\b(sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep|uv_sleep)\s*\(",
          ".h": r"\b(sleep|usleep|nanosleep|clock_nanosleep|thrd_sleep|uv_sleep)\s*\(",
          ".py": r"\b(time\.sleep|asyncio\.sleep)\s*\(",
          ".sh": r"(?:^|[;&|(]|\bdo|\bthen)\s*sleep\s"}

LEFT_BEHIND = r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"]) + r")\b"
SOMEBODYS_FOLDER = r"(?<![\w.\-}$/])/(" + "|".join(["wo" + "rk", "ho" + "me", "Us" + "ers"]) + r")/[\w.]"

# Verbs whose promise the house rules make once for all.
SELF_EVIDENT = r"_(init|deinit|free|ref|unref|at|name|info|stats)$|_n_\w+$|^__attribute__$"

# Words of ours that gave way to the field's (docs/glossary.md): as a part of a file's name or of an identifier.
WORDS = {
    "own_context": "own_instance", "sole": "required", "crossing": "boundary", "crossings": "boundaries",
    "twin": "duplicate", "twins": "duplicates", "rehearsal": "prebuilt", "fold": "reduce", "folded": "reduced",
    "hot_spans": "span_ukernels", "hot_casts": "cast_ukernels", "et_hot": "et_ukernels", "et_map": "et_elementwise",
    "et_line": "et_dim_apply", "sheet": "tile", "sheets": "tiles", "halves": "half or fp16", "bfloat": "bf16",
    "bfloats": "bf16", "gemm8": "gemm_qs8", "sums8": "rowsum_qs8", "picture": "image", "pictures": "images",
    "serving": "model", "servings": "models", "bury": "defer_free",
    "buried": "deferred", "let_go": "release", "is_foreign": "is_uploaded", "is_for_now": "is_transient",
    "is_away": "is_suspended", "remark": "diagnostic", "remarks": "diagnostics", "et_compiled": "et_model",
    "et_context": "et_instance", "et_lane": "et_worker_threads", "lane_new": "threads_new", "et_host": "et_platform",
    "et_xnn_own": "et_xnn_override", "et_xnn_part": "et_xnn_partition", "et_slot": "et_plan_worker",
    "guest": "inline_worker", "slot_list": "value_list",
}
FILES_MAX = 40  # files of a product folder
COLUMNS_MAX = 120  # of a comment's line, a tab being eight

LINES_WARN, LINES_MAX = 800, 1000
SPDX = "/* SPDX-" + "License-Identifier: BSD-3-Clause */"
ESSAY_MIN, TEST_ESSAY_MIN = 80, 30  # characters of the opening comment

TEXT = (".c", ".h", ".py", ".sh", ".md", ".build", ".options", ".proto", ".conf", ".service", ".socket", ".ini",
        ".in", ".txt", ".1", ".5", ".7", ".8")
DATA = ("tests/models/", "tests/data/", "tests/fuzz/corpus/", "tests/corpus/")


def files_of(root):
    """Paths of what belongs to the tree, relative to @root."""
    found = None
    if os.path.exists(os.path.join(root, ".git")) and shutil.which("git"):
        r = subprocess.run(["git", "-C", root, "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if r.returncode == 0:
            found = [p for p in r.stdout.decode().split("\0") if p]
    if found is None:
        found = []
        for folder, folders, names in os.walk(root):
            folders[:] = [d for d in folders if not d.startswith(("build", ".")) and d != "__pycache__"]
            found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(p for p in set(found) if not p.startswith(DATA) and os.path.isfile(os.path.join(root, p)))


def is_script(root, path):
    if path.startswith("tools/") and "." not in os.path.basename(path):
        return True
    return path.startswith(".ci/")


def is_test(path):
    return path.startswith("tests/") or os.path.basename(path).startswith("test_")


def is_under(path, places):
    """Whether @path is one of @places: a file, a folder (with its slash), or the start of a name."""
    return any(path == p or (not p.endswith((".c", ".h")) and path.startswith(p)) for p in places)


def code_only(text):
    """@text with comments and what stands in quotes blanked, line by line as before."""
    def blank(m):
        s = m.group(0)
        if s.startswith(("/*", "//")):
            return re.sub(r"[^\n]", " ", s)
        return s[0] + re.sub(r"[^\n]", " ", s[1:-1]) + s[-1]
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)


def comments_blanked(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S)


class Lint:
    def __init__(self, root):
        self.root = root
        self.files = files_of(root)
        self.findings = []
        self.warnings = []

    def text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as f:
            return f.read()

    def sources(self):
        return [p for p in self.files if p.endswith((".c", ".h"))]

    def find(self, path, line, rule, what):
        self.findings.append(f"{path}:{line}: {rule}: {what}")

    # --- includes

    @staticmethod
    def folder_of(path):
        """The entry of MAY_INCLUDE that is @path's, or its delegate's own folder."""
        best = ""
        if path.endswith(".h") or path.endswith(".c"):
            exact = [f for f in MAY_INCLUDE if f == path]
            if exact:
                return exact[0]
        for folder in MAY_INCLUDE:
            if (path == folder or path.startswith(folder + "/")) and len(folder) > len(best):
                best = folder
        parts = path.split("/")
        if best == "delegates" and len(parts) > 2:
            best = "/".join(parts[:2])
        if best == "delegates/xnnpack" and parts[2:3] == ["support"]:
            best = "delegates/xnnpack/support"
        return best

    @staticmethod
    def is_core(folder):
        return folder in ("runtime", "runtime/base", "runtime/program") or folder.startswith("runtime/kernels")

    def may_include(self, path):
        folder = self.folder_of(path)
        if folder.startswith("delegates/") and folder not in MAY_INCLUDE:
            allowed = ANY_DELEGATE
        else:
            allowed = MAY_INCLUDE.get(folder, [])
        allowed = [folder] + list(allowed)
        if is_test(path):
            allowed += TESTS_MAY
        return allowed

    @staticmethod
    def module_of(path):
        """What a folder's tests may use the whole of: daemon, runtime/kernels, delegates/xnnpack ..."""
        parts = path.split("/")
        return "/".join(parts[:2]) if parts[0] in ("delegates", "clients") or parts[:2] == ["runtime", "kernels"] else parts[0]

    def check_includes(self):
        for path in self.sources():
            text = comments_blanked(self.text(path))
            for n, line in enumerate(text.splitlines(), 1):
                m = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
                if not m:
                    continue
                if m.group(1) == '"':
                    self.check_own_include(path, n, m.group(2))
                else:
                    self.check_system_include(path, n, m.group(2))
                self.check_library(path, n, m.group(2))

    def check_own_include(self, path, n, header):
        if header.endswith(".pb-c.h"):
            return  # generated; check_library knows who may
        if not os.path.exists(os.path.join(self.root, header)):
            if os.path.exists(os.path.join(self.root, os.path.dirname(path), header)):
                self.find(path, n, "include", f"name {header} from the top of the tree")
            elif path.startswith("tests/") or "/generated/" in header or header.startswith("generated/"):
                pass
            else:
                self.find(path, n, "include", f"there is no {header}")
            return
        allowed = self.may_include(path)
        if "*" in allowed or self.folder_of(header) in allowed:
            return
        if is_test(path) and self.module_of(path) == self.module_of(header):
            return
        self.find(path, n, "include", f"{self.folder_of(path)} may not include {header}")

    def check_system_include(self, path, n, header):
        folder = self.folder_of(path)
        core = self.is_core(folder)
        if core and not is_test(path) and header not in CORE_HEADERS:
            self.find(path, n, "core", f"the runtime's core is injected what it needs: no <{header}>")

    def check_library(self, path, n, header):
        for pattern, places in LIBRARIES:
            if re.fullmatch(pattern, header) and not is_test(path) and not is_under(path, places):
                self.find(path, n, "library", f"{header} is for {', '.join(places)} only")

    # --- circles

    def check_circles(self):
        """No circle of includes between nouns (a .c and its .h) of different folders."""
        below = {}
        for path in self.sources():
            if is_test(path):
                continue
            noun = os.path.splitext(path)[0]
            found = re.findall(r'(?m)^\s*#\s*include\s*"([^"]+)"', comments_blanked(self.text(path)))
            below.setdefault(noun, set()).update(os.path.splitext(h)[0] for h in found)
        for noun in below:
            below[noun] = {n for n in below[noun] if n in below and n != noun}
        reach = {}
        for noun in below:
            seen, todo = set(), list(below[noun])
            while todo:
                n = todo.pop()
                if n not in seen:
                    seen.add(n)
                    todo += below[n]
            reach[noun] = seen
        told = set()
        for noun in sorted(below):
            circle = sorted(n for n in reach[noun] if noun in reach[n])
            if noun in told or len({os.path.dirname(n) for n in circle}) < 2:
                continue
            told.update(circle)
            for n in circle:
                self.find(n + (".h" if n + ".h" in self.files else ".c"), 1, "circle", f"one of {len(circle)}: {', '.join(circle)}")

    # --- calls

    def check_calls(self):
        for path in self.sources():
            text = code_only(self.text(path))
            core = self.is_core(self.folder_of(path)) and not is_test(path)
            for n, line in enumerate(text.splitlines(), 1):
                for name, instead in NEVER.items():
                    if re.search(rf"(?<![\w.>]){name}\s*\(", line):
                        self.find(path, n, "call", f"{name}: {instead}")
                if not is_test(path):
                    for name, instead in NEVER_OUTSIDE_TESTS.items():
                        if re.search(rf"(?<![\w.>]){name}\s*\(", line):
                            self.find(path, n, "call", f"{name}: {instead}")
                    m = re.search(rf"(?<![\w.>])({THREAD_STARTERS})\s*\(", line)
                    if m and not is_under(path, MAY_START_THREADS):
                        self.find(path, n, "thread", f"{m.group(1)} is for {', '.join(MAY_START_THREADS)} only")
                m = re.search(rf"(?<![\w.>*])({CORE_CALLS})\s*\(", line)
                if core and m:
                    self.find(path, n, "core", f"{m.group(1)}: memory, files and time are injected")
        for path in self.files:
            pattern = SLEEPS.get(os.path.splitext(path)[1])
            # A bench gates nothing, and how long something has lain still may be what it measures.
            if not pattern or not is_test(path) or path.startswith(("tests/lint/", "tests/bench/")):
                continue
            text = self.text(path)
            text = code_only(text) if path.endswith((".c", ".h")) else re.sub(r"(?m)#.*$", "", text)
            for n, line in enumerate(text.splitlines(), 1):
                if re.search(pattern, line):
                    self.find(path, n, "sleep", "a test waits for what it needs, never for time to pass")

    # --- text

    def check_text(self):
        for path in self.files:
            if not path.endswith(TEXT) and not is_script(self.root, path):
                continue
            for n, line in enumerate(self.text(path).split("\n"), 1):
                m = re.search(LEFT_BEHIND, line)
                if m:
                    self.find(path, n, "left behind", m.group(1))
                m = re.search(SOMEBODYS_FOLDER, line)
                if m:
                    self.find(path, n, "path", f"{m.group(0)}... is a folder of somebody's machine")

    # --- words

    def check_words(self):
        whole = re.compile(r"(?<![A-Za-z0-9])(?:" + "|".join(sorted(WORDS, key=len, reverse=True)) + r")(?![A-Za-z0-9])")
        for path in self.sources():
            m = whole.search(os.path.basename(path))
            if m:
                self.find(path, 1, "word", f"{m.group(0)}: the field says {WORDS[m.group(0)]}")
            for n, line in enumerate(code_only(self.text(path)).splitlines(), 1):
                for identifier in re.findall(r"[A-Za-z_]\w*", line):
                    m = whole.search(identifier.lower())
                    if m:
                        self.find(path, n, "word", f"{identifier}: the field says {WORDS[m.group(0)]}")

    # --- shape

    def check_folders(self):
        count = {}
        for path in self.files:
            if not path.startswith(("tests/", "docs/", "tools/")):
                count[os.path.dirname(path)] = count.get(os.path.dirname(path), 0) + 1
        for folder, n in sorted(count.items()):
            if n > FILES_MAX:
                self.find(folder, 1, "folder", f"{n} files; a folder holds at most {FILES_MAX}")

    def check_columns(self, path, text):
        in_comment = False
        for n, line in enumerate(text.splitlines(), 1):
            in_comment = in_comment or "/*" in line
            if in_comment and len(line.expandtabs(8)) > COLUMNS_MAX:
                self.find(path, n, "columns", f"a comment is at most {COLUMNS_MAX} columns wide")
            if "*/" in line:
                in_comment = False

    def check_shape(self):
        self.check_folders()
        for path in self.sources():
            text = self.text(path)
            self.check_columns(path, text)
            n_lines = text.count("\n")
            if n_lines > LINES_MAX:
                self.find(path, n_lines, "size", f"{n_lines} lines; one noun fits in {LINES_MAX}, and reads well in 600")
            elif n_lines > LINES_WARN:
                self.warnings.append(f"{path}: {n_lines} lines, more than {LINES_WARN}")
            if not text.startswith(SPDX):
                self.find(path, 1, "licence", f"the first line is {SPDX}")
            m = re.match(r"/\*(.*?)\*/", text.removeprefix(SPDX).lstrip("\n"), flags=re.S)
            n_words = len(re.sub(r"[\s*]+", " ", m.group(1)).strip()) if m else 0
            if path.endswith(".c") and n_words < (TEST_ESSAY_MIN if is_test(path) else ESSAY_MIN):
                self.find(path, 1, "essay", "open with what this is, what is always true, what it does not do")
            if path.endswith(".h"):
                if not m:
                    self.find(path, 1, "essay", "a header opens with what it is")
                self.check_guard(path, text)
                self.check_promises(path, text)

    def check_guard(self, path, text):
        full = re.sub(r"[^A-Za-z0-9]", "_", path).upper()
        short = re.sub(r"[^A-Za-z0-9]", "_", os.path.basename(path)).upper()
        code = comments_blanked(text).strip()
        m = re.match(r"#ifndef (\w+)\n#define (\w+)\b", code)
        # An installed header's guard cannot know the folders of this tree.
        names = [full, short] if path.startswith("clients/") or short == "INFERD_DELEGATE_H" else [full]
        if not m or m.group(1) != m.group(2) or m.group(1) not in names or not code.endswith("#endif"):
            self.find(path, 1, "guard", f"a header is guarded by {full}")

    def check_promises(self, path, text):
        """Each function that a header declares stands under a comment, alone or with those it is declared with."""
        code = code_only(text)
        raw = text.splitlines()
        # Prototypes start at the margin, have a name and a bracket, and end in a semicolon before any brace.
        for m in re.finditer(r"(?m)^(?!static|typedef|#|struct \w+ *\{|enum \w* *\{)[A-Za-z_][\w \t*]*?\b(\w+)\(", code):
            end = re.compile(r"[;{]").search(code, m.end())
            if not end or end.group(0) == "{" or re.search(SELF_EVIDENT, m.group(1)):
                continue
            n = code.count("\n", 0, m.start())
            above = n - 1
            # Up over the declarations that share a comment, as far as a body, the preprocessor or a type;
            # a type in the same paragraph shares it, too.
            stops = ("#",)
            while above >= 0 and not raw[above].startswith(stops) and not re.match(r"(?!\t).*\*/\s*$", raw[above]):
                if not raw[above].strip():
                    stops = ("}", "#")
                above -= 1
            if "/*" not in raw[n] and (above < 0 or not re.match(r"(?!\t).*\*/\s*$", raw[above])):
                self.find(path, n + 1, "promise", f"say what {m.group(1)} does, who owns what, and its answers")

    # --- format

    def check_format(self):
        tool = shutil.which("clang-format")
        if not tool:
            print("SKIP: clang-format is not installed")
            sys.exit(SKIP)
        sources = self.sources()
        seen = set()
        for i in range(0, len(sources), 50):
            r = subprocess.run([tool, "--dry-run", "-Werror", "--style=file"] + sources[i:i + 50], cwd=self.root,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            for m in re.finditer(rb"(?m)^([^:\n]+):(\d+):\d+: error: code should be clang-formatted", r.stdout):
                if m.group(1) not in seen:
                    self.find(m.group(1).decode(), int(m.group(2)), "format", "run clang-format -i on it")
                seen.add(m.group(1))
            if r.returncode and not self.findings:
                self.find(".clang-format", 1, "format", r.stdout.decode(errors="replace").strip())


CHECKS = ["includes", "circles", "calls", "text", "words", "shape", "format"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    parser.add_argument("check", nargs="*", default=CHECKS, metavar="CHECK", help=", ".join(CHECKS))
    args = parser.parse_args()
    lint = Lint(os.path.abspath(args.root))
    if not lint.sources():
        print(f"no C source under {args.root}")
        return 1
    for name in args.check:
        getattr(lint, "check_" + name)()
    for line in lint.warnings:
        print(f"warning: {line}")
    for line in lint.findings:
        print(line)
    print(f"{len(lint.files)} files, {len(lint.findings)} broken rules")
    return 1 if lint.findings else 0


if __name__ == "__main__":
    sys.exit(main())
