/* SPDX-License-Identifier: BSD-3-Clause */
/* Sandbox: the rights that a host process gives up before it loads its plug-in. */
#ifndef DELEGATES_PLUGIN_HOST_SANDBOX_H
#define DELEGATES_PLUGIN_HOST_SANDBOX_H

#include <stdint.h>

enum et_sandbox_part {
	ET_SANDBOX_NO_NEW_PRIVS = 1 << 0,
	ET_SANDBOX_FILES = 1 << 1, /* Landlock */
	ET_SANDBOX_CALLS = 1 << 2, /* seccomp */
	ET_SANDBOX_LIMITS = 1 << 3,
};

/* Enter the sandbox, for the calling thread and all threads that it starts; there is no way back. @cache_dir is the
 * folder that stays writable, or NULL. Returns the parts that this kernel supports and has enabled. */
unsigned et_sandbox_enter(const char *cache_dir);

/* The same for a process that compiles and has no client's data: it may start a linker, which is in the sandbox as
 * well. With Landlock it can execute the linker and the loader of programs alone. */
unsigned et_sandbox_enter_with_tools(const char *cache_dir);

/* The same, tighter, for a process that has opened and loaded all that it needs: it can't open any file (regular file,
 * device, or kernel information), make memory files or shared memory, ask devices (ioctl), map anything as code, or
 * raise or lower a limit. It can't get memory that the limit of et_sandbox_limit_memory does not count. What was opened
 * or mapped before still works, and so do descriptors that it receives. */
unsigned et_sandbox_enter_strict(void);

/* Limit the memory of this process: all that it can write to and does not share, threads' stacks included
 * (RLIMIT_DATA). Beyond the limit malloc, mmap and new threads fail. Call it before entering the strict sandbox, which
 * leaves it to inferd to change the limit later. 0, or negative errno. */
int et_sandbox_limit_memory(uint64_t n_bytes);

#endif
