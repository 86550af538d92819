#!/usr/bin/env python3
"""The rules of inferd's source tree that a machine can check.

    lint.py [--root DIR] CHECK...      checks: includes calls text shape format

Each broken rule is one line, `file:line: rule: what`; the exit status is 1 when
there is one. The tables below are the rules; test_lint.py holds an example of
each being broken, so a check that stops biting is noticed.
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
# "the Linux floor", runtime/platform, is what hands a process's heap, clock, files
# and mappings to the runtime; the runtime's core must never see it.

BASE = ["runtime/base"]
CORE = BASE + ["runtime"]  # the runtime's headers; not its kernels, not its host
FLOOR = BASE + ["runtime/platform"]

MAY_INCLUDE = {
    "runtime/base": [],
    "runtime": BASE,
    "runtime/kernels": CORE,
    "runtime/platform": CORE,
    "runtime/profile": CORE,
    # delegates.h and the table of those compiled in; what callers of such a table have in common
    "delegates": CORE + ["runtime/kernels", "delegates/inferd-delegate.h"],
    "delegates/graph": CORE,
    # the one header that plug-ins and the compiled-in delegates are written to
    "delegates/plugin": CORE + FLOOR + ["ipc", "delegates", "delegates/inferd-delegate.h"],
    # tries delegates of both kinds
    "delegates/check": CORE + FLOOR + ["delegates", "delegates/direct", "delegates/plugin"],
    "ipc": FLOOR,
    "config": BASE,
    "daemon": CORE + FLOOR + ["runtime/kernels", "runtime/profile", "delegates", "delegates/direct", "delegates/plugin", "ipc", "config"],
    "clients": FLOOR + ["ipc"],
    # `inferctl --local` runs programs in its own process.
    "delegates/inferd-delegate.h": [],
    "clients/inferctl": CORE + FLOOR + ["runtime/kernels", "runtime/profile", "delegates", "delegates/direct", "delegates/plugin", "ipc", "config",
                                        "clients"],
    "clients/examples": [],  # <inferd.h>, as an application sees it
    "tests": ["*"],
    "tools": CORE + FLOOR,
}
# Any other delegates/X: the runtime's headers and the engine-neutral graph, never another backend.
ANY_DELEGATE = CORE + ["delegates", "delegates/graph", "delegates/inferd-delegate.h"]

# What a folder's own tests may use on top: something to run on and to compare with.
TESTS_MAY = CORE + FLOOR + ["runtime/kernels", "delegates", "delegates/direct", "tests"]

# Library's headers: the files (or folders, with a slash) that may include them. Tests may too.
LIBRARIES = [
    (r"uv\.h|uv/.*", ["daemon/"]),
    (r"protobuf-c/.*", ["ipc/message.c"]),
    (r".*\.pb-c\.h", ["ipc/message.c"]),
    (r"systemd/.*", ["daemon/loop/listener.c", "daemon/loop/notify.c", "daemon/log.c"]),
    (r"xnnpack.*|pthreadpool\.h|cpuinfo\.h", ["delegates/xnnpack/"]),
    (r"CL/.*", ["delegates/opencl/"]),
    (r"ini\.h", ["config/"]),
    (r"jansson\.h", ["clients/"]),
    (r"nettle/.*", ["runtime/platform/"]),
    (r"gd\.h", ["clients/examples/"]),
    (r"dlfcn\.h", ["delegates/", "tests/"]),
    # A lock: where two threads meet. The daemon's queues, a channel that a worker and the loop
    # both send on, a client library that several threads call, delegates' own, what the host keeps for them.
    (r"pthread\.h|threads\.h|semaphore\.h", ["daemon/", "delegates/", "ipc/channel.", "clients/", "runtime/platform/"]),
]

# Starting a thread is another matter than taking a lock.
THREAD_STARTERS = r"pthread_create|thrd_create|uv_thread_create(?:_ex)?|uv_queue_work|clone3?|fork|vfork"
MAY_START_THREADS = ["daemon/base/thread.c", "delegates/", "clients/inferctl"]

# The runtime's core and kernels are given memory, time and files; the C library's headers that are
# only definitions, arithmetic and bytes are all they need.
CORE_HEADERS = set("""assert.h errno.h float.h inttypes.h iso646.h limits.h math.h stdalign.h stdarg.h
    stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdnoreturn.h string.h tgmath.h complex.h""".split())
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

LINES_WARN, LINES_MAX = 800, 1000
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
        for folder in MAY_INCLUDE:
            if (path == folder or path.startswith(folder + "/")) and len(folder) > len(best):
                best = folder
        # clients/inferctl.c and clients/inferctl_bench.c belong to it as clients/inferctl/bench.c does
        if path.startswith("clients/inferctl"):
            best = "clients/inferctl"
        parts = path.split("/")
        if best == "delegates" and len(parts) > 2:
            best = "/".join(parts[:2])
        return best

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
        self.find(path, n, "include", f"{self.folder_of(path)} may not include {header}")

    def check_system_include(self, path, n, header):
        folder = self.folder_of(path)
        core = folder in ("runtime", "runtime/base", "runtime/kernels")
        if core and not is_test(path) and header not in CORE_HEADERS:
            self.find(path, n, "core", f"the runtime's core is injected what it needs: no <{header}>")

    def check_library(self, path, n, header):
        for pattern, places in LIBRARIES:
            if re.fullmatch(pattern, header) and not is_test(path) and not is_under(path, places):
                self.find(path, n, "library", f"{header} is for {', '.join(places)} only")

    # --- calls

    def check_calls(self):
        for path in self.sources():
            text = code_only(self.text(path))
            core = self.folder_of(path) in ("runtime", "runtime/base", "runtime/kernels") and not is_test(path)
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

    # --- shape

    def check_shape(self):
        for path in self.sources():
            text = self.text(path)
            n_lines = text.count("\n")
            if n_lines > LINES_MAX:
                self.find(path, n_lines, "size", f"{n_lines} lines; one noun fits in {LINES_MAX}, and reads well in 600")
            elif n_lines > LINES_WARN:
                self.warnings.append(f"{path}: {n_lines} lines, more than {LINES_WARN}")
            m = re.match(r"/\*(.*?)\*/", text, flags=re.S)
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
        names = [full, short] if path.startswith("clients/") else [full]
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


CHECKS = ["includes", "calls", "text", "shape", "format"]


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
