/* SPDX-License-Identifier: BSD-3-Clause */
/* Sandbox: the rights that a host process gives up before it loads its plug-in. */
#ifndef DELEGATES_PLUGIN_HOST_SANDBOX_H
#define DELEGATES_PLUGIN_HOST_SANDBOX_H

enum et_sandbox_part {
	ET_SANDBOX_NO_NEW_PRIVS = 1 << 0,
	ET_SANDBOX_FILES = 1 << 1, /* Landlock */
	ET_SANDBOX_CALLS = 1 << 2, /* seccomp */
	ET_SANDBOX_LIMITS = 1 << 3,
};

/* Enter the sandbox, for the calling thread and all threads that it starts; there is no way back. @cache_dir is the
 * folder that stays writable, or NULL. Returns the parts that this kernel supports and has enabled. */
unsigned et_sandbox_enter(const char *cache_dir);

#endif
