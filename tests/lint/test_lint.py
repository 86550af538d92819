#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Test the lint: each rule, broken on purpose in a small tree, is reported, and a correct tree passes.

Each case is a correct tree with one wrong file, and the words of the finding. The real
tree is not read.
"""

import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))

SPDX = "/* SPDX-" + "License-Identifier: BSD-3-Clause */\n"
ESSAY = SPDX + "/* What this file is, what must always be true of it, and what it deliberately leaves to others.\n */\n"
HEADER = SPDX + "/* A noun. */\n#ifndef {0}\n#define {0}\n\n{1}\n#endif\n"


def header(guard, body=""):
    return HEADER.format(guard, body)


GOOD = {
    "runtime/base/list.h": header("RUNTIME_BASE_LIST_H"),
    "runtime/plan.h": header("RUNTIME_PLAN_H", "/* Answers: 0. */\nint et_plan_go(void);\nint et_plan_stop(void);\n"),
    "runtime/plan.c": ESSAY + '#include "runtime/plan.h"\n#include "runtime/base/list.h"\n#include <string.h>\n',
    "runtime/kernels/kernels.h": header("RUNTIME_KERNELS_KERNELS_H"),
    "daemon/queue/worker.h": header("DAEMON_QUEUE_WORKER_H"),
    "daemon/client/job.h": header("DAEMON_CLIENT_JOB_H", '#include "daemon/queue/worker.h"'),
    "runtime/platform/platform.h": header("RUNTIME_PLATFORM_PLATFORM_H"),
    "delegates/opencl/cl.h": header("DELEGATES_OPENCL_CL_H"),
    "delegates/xnnpack/xnn.c": ESSAY + '#include "runtime/plan.h"\n#include <xnnpack.h>\n#include <pthread.h>\n',
    "ipc/channel.h": header("IPC_CHANNEL_H"),
    "ipc/message.c": ESSAY + '#include "inferd.pb-c.h"\n#include "ipc/channel.h"\n',
    "daemon/loop/loop.c": ESSAY + '#include "ipc/channel.h"\n#include "runtime/plan.h"\n#include <uv.h>\n',
    "daemon/client/session.h": header("DAEMON_CLIENT_SESSION_H"),
    "daemon/base/thread.c": ESSAY + "void f(void)\n{\n\tpthread_create(a, b, c, d);\n}\n",
    "daemon/loop/here.h": header("DAEMON_LOOP_HERE_H"),
    "clients/inferd.h": header("INFERD_H"),
    "clients/inferctl/main.c": ESSAY + '#include "runtime/plan.h"\n#include <jansson.h>\n',
    "runtime/test_plan.c": SPDX + "/* The plan, at its edges and beyond. */\n"
                           '#include "runtime/platform/platform.h"\n#include "runtime/kernels/kernels.h"\n#include <stdlib.h>\n',
    "README.md": "Words about strcpy(a, b) and sleep 3 are no calls.\n",
}

FORMAT = "BasedOnStyle: LLVM\nIndentWidth: 8\nUseTab: ForContinuationAndIndentation\n"

BAD = [
    # (check, file, text, what the finding says)
    ("includes", "runtime/plan.c", ESSAY + '#include "runtime/platform/platform.h"\n', "runtime may not include runtime/platform"),
    ("includes", "runtime/plan.c", ESSAY + '#include "runtime/kernels/kernels.h"\n', "may not include runtime/kernels"),
    ("includes", "runtime/plan.c", ESSAY + "#include <stdlib.h>\n", "no <stdlib.h>"),
    ("includes", "runtime/plan.c", ESSAY + '#include "ipc/channel.h"\n', "may not include ipc"),
    ("includes", "runtime/base/list.h", header("RUNTIME_BASE_LIST_H", '#include "runtime/plan.h"'), "may not include"),
    ("includes", "ipc/channel.c", ESSAY + '#include "runtime/plan.h"\n', "ipc may not include runtime/plan.h"),
    ("includes", "ipc/channel.c", ESSAY + '#include "daemon/client/session.h"\n', "ipc may not include daemon"),
    ("includes", "ipc/channel.c", ESSAY + "#include <uv.h>\n", "uv.h is for daemon/ only"),
    ("includes", "ipc/channel.c", ESSAY + '#include "inferd.pb-c.h"\n', "is for ipc/message.c only"),
    ("includes", "ipc/region.c", ESSAY + "#include <pthread.h>\n", "pthread.h is for"),
    ("includes", "daemon/loop/loop.c", ESSAY + "#include <systemd/sd-daemon.h>\n", "systemd/sd-daemon.h is for"),
    ("includes", "daemon/loop/loop.c", ESSAY + '#include "clients/inferd.h"\n', "daemon/loop may not include clients"),
    ("includes", "daemon/loop/loop.c", ESSAY + '#include "here.h"\n', "from the top of the tree"),
    ("includes", "daemon/loop/loop.c", ESSAY + '#include "daemon/nowhere.h"\n', "there is no daemon/nowhere.h"),
    ("includes", "delegates/xnnpack/xnn.c", ESSAY + '#include "delegates/opencl/cl.h"\n', "may not include delegates/opencl"),
    ("includes", "delegates/opencl/cl.c", ESSAY + "#include <xnnpack.h>\n", "xnnpack.h is for"),
    ("includes", "delegates/xnnpack/xnn.c", ESSAY + '#include "ipc/channel.h"\n', "may not include ipc"),
    ("includes", "clients/channel.c", ESSAY + '#include "daemon/client/session.h"\n', "may not include daemon"),
    ("includes", "clients/client.c", ESSAY + '#include "runtime/plan.h"\n', "clients may not include runtime/plan.h"),
    ("includes", "config/config.c", ESSAY + '#include "ipc/channel.h"\n', "config may not include ipc"),
    ("includes", "runtime/kernels/simd/vector.h", header("RUNTIME_KERNELS_SIMD_VECTOR_H", '#include "runtime/kernels/kernels.h"'),
     "runtime/kernels/simd may not include runtime/kernels"),
    ("circles", "daemon/queue/worker.h", header("DAEMON_QUEUE_WORKER_H", '#include "daemon/client/job.h"'), "circle"),
    ("words", "runtime/plan.c", ESSAY + "int fold_rows;\n", "the field says reduce"),
    ("words", "runtime/base/twins.h", header("RUNTIME_BASE_TWINS_H"), "the field says duplicates"),
    ("shape", "runtime/plan.c", ESSAY + "/* " + "x" * 120 + " */\n", "120 columns"),
    ("shape", "runtime/plan.c", ESSAY.removeprefix(SPDX), "licence"),
    ("calls", "daemon/loop/loop.c", ESSAY + "void f(void)\n{\n\tstrcpy(a, b);\n}\n", "6: call: strcpy"),
    ("calls", "daemon/loop/loop.c", ESSAY + "void f(void)\n{\n\tsprintf (a, b);\n}\n", "call: sprintf"),
    ("calls", "daemon/loop/loop.c", ESSAY + "int f(void)\n{\n\treturn atoi(a);\n}\n", "call: atoi"),
    ("calls", "daemon/loop/loop.c", ESSAY + "int f(void)\n{\n\treturn alloca(a);\n}\n", "call: alloca"),
    ("calls", "daemon/loop/loop.c", ESSAY + "int f(void)\n{\n\treturn pthread_create(a);\n}\n", "thread: pthread_create"),
    ("calls", "runtime/plan.c", ESSAY + "int f(void)\n{\n\treturn malloc(a);\n}\n", "core: malloc"),
    ("calls", "daemon/loop/test_loop.c", ESSAY + "void f(void)\n{\n\tusleep(5);\n}\n", "sleep: a test waits"),
    ("calls", "tests/e2e/test_a.py", "import time\ntime.sleep(1)\n", "sleep: a test waits"),
    ("calls", "tests/tools/test_a.sh", "while x; do sleep 1; done\n", "sleep: a test waits"),
    ("text", "README.md", "To" + "DO: later\n".replace("To", "TO"), "left behind"),
    ("text", "daemon/loop/loop.c", ESSAY + "// FIX" + "ME\n", "left behind"),
    ("text", "tools/demo", "cd /ho" + "me/somebody/x\n", "folder of somebody's machine"),
    ("shape", "daemon/loop/loop.c", "#include <uv.h>\n", "essay"),
    ("shape", "daemon/loop/loop.c", ESSAY + "int x;\n" * 1100, "size"),
    ("shape", "daemon/client/session.h", header("SESSION_H"), "guarded by DAEMON_CLIENT_SESSION_H"),
    ("shape", "daemon/client/session.h", "/* A noun. */\nint inf_x;\n", "guarded by"),
    ("shape", "daemon/client/session.h", header("DAEMON_CLIENT_SESSION_H", "int inf_session_go(int a,\n\tint b);"), "say what inf_session_go"),
    ("format", "daemon/loop/loop.c", ESSAY + "int  f( void ) { return 1;}\n", "clang-format"),
]
# "TO" and "DO" stay apart in this file's text, or the lint would report its own test.
BAD = [(c, p, t.replace("ToDO", "TO" + "DO"), w) for c, p, t, w in BAD]


def run(tree, check):
    """The exit status and the output of the lint's @check on @tree."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in tree.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as f:
                f.write(text)
        with open(os.path.join(root, ".clang-format"), "w", encoding="utf-8") as f:
            f.write(FORMAT)
        r = subprocess.run([sys.executable, "-B", os.path.join(HERE, "lint.py"), "--root", root, check],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return r.returncode, r.stdout


def main():
    failed = 0
    tried = set()
    for check in ("includes", "circles", "calls", "text", "words", "shape"):
        status, output = run(GOOD, check)
        if status != 0:
            print(f"the good tree breaks `{check}`:\n{output}")
            failed += 1
    for check, path, text, words in BAD:
        status, output = run(dict(GOOD, **{path: text}), check)
        if check == "format" and status == 77:
            print("no clang-format here: the format check is untried")
            continue
        tried.add(check)
        mine = [line for line in output.splitlines() if line.startswith(path + ":") and words in line]
        if status != 1 or not mine:
            print(f"`{check}` let this through: {path} should have been told {words!r}; status {status}:\n{output}")
            failed += 1
    print(f"{len(BAD)} broken trees, {failed} wrong; checks tried: {', '.join(sorted(tried))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
