/* SPDX-License-Identifier: BSD-3-Clause */
/* Backends of this process: the compiled-in ones, and the plug-ins of the daemon's configuration, which are opened
 * when a program needs one, each in its host process. Use it from one thread; a backend itself may allow more. */
#ifndef CLIENTS_INFERCTL_BACKENDS_H
#define CLIENTS_INFERCTL_BACKENDS_H

#include "runtime/base/log.h"
#include "runtime/plan.h"

enum { CTL_BACKENDS_MAX = 16 };

struct ctl_backends {
	struct et_registry registry; /* grows at its end */
	struct et_backend_entry entries[CTL_BACKENDS_MAX];
	const struct et_kernel_table *tables[CTL_BACKENDS_MAX + ET_KERNEL_TABLES_MAX];
	const struct et_log *log;
	const char *config; /* the daemon's configuration; NULL: the installed one, if there is one */
	const char *cache;  /* plug-ins get their cache folders below it; NULL: they get none */
	bool has_plugins;   /* the plug-ins were opened, or opening them failed */
	/* Why a backend could not be opened. A plug-in has no id here: only the plug-in itself knows it. */
	struct ctl_backend_problem {
		char id[64], text[512];
	} problems[CTL_BACKENDS_MAX];
	unsigned n_problems;
};

/* Open the compiled-in backends, with the options of their sections in @config unless it is NULL. A backend that fails
 * is noted in problems. @log, @config and @cache are borrowed. Returns 0, or -1 with the reason in @text if @config
 * cannot be read; there is then nothing to close. */
int ctl_backends_open(struct ctl_backends *backends, const struct et_log *log, const char *config, const char *cache,
	char *text, size_t room);
void ctl_backends_close(struct ctl_backends *backends);
/* Open the plug-ins, too, if @program needs a backend or an operator that is not compiled in. Returns 0, or -1 with the
 * reason in @text if the configuration that the user named cannot be read. */
int ctl_backends_want(struct ctl_backends *backends, const struct et_program *program, char *text, size_t room);

/* The open backend with that id, or NULL. */
const struct et_backend_entry *ctl_backends_find(const struct ctl_backends *backends, const char *id);
/* Whether a kernel for operator @name is there. */
bool ctl_backends_has_kernel(const struct ctl_backends *backends, const char *name);
/* Write to @text why backend @id is not available and what would help. Returns @text. */
const char *ctl_backends_problem(const struct ctl_backends *backends, const char *id, char *text, size_t room);

#endif
