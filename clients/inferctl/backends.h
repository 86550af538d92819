/* SPDX-License-Identifier: BSD-3-Clause */
/* Backends opened in this process: those compiled in and, once a program needs them, the plug-ins that the daemon's
 * configuration names, each in its host process. One thread, but for what a backend's own interface allows. */
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
	const char *config; /* the daemon's configuration; NULL: where it was installed, if it is there */
	const char *cache;  /* a folder below which plug-ins keep theirs; NULL: nowhere */
	bool has_plugins;   /* the configuration's were opened, or tried */
	/* What could not be opened: compiled in with its id, plug-ins without. */
	struct ctl_backend_problem {
		char id[64], text[512];
	} problems[CTL_BACKENDS_MAX];
	unsigned n_problems;
};

/* Open those compiled in, with the options of their sections in @config, if that is not NULL. What the pointers lead
 * to must outlive it. -1 and @text: @config can't be read; there is nothing to close. */
int ctl_backends_open(struct ctl_backends *backends, const struct et_log *log, const char *config, const char *cache,
	char *text, size_t room);
void ctl_backends_close(struct ctl_backends *backends);
/* Open the plug-ins too if @program asks for a backend or an operator that is not there. -1 and @text: the
 * configuration that was named can't be read. */
int ctl_backends_want(struct ctl_backends *backends, const struct et_program *program, char *text, size_t room);

/* NULL: none of that id is open. */
const struct et_backend_entry *ctl_backends_find(const struct ctl_backends *backends, const char *id);
bool ctl_backends_has_kernel(const struct ctl_backends *backends, const char *name);
/* Why backend @id is not there and what would help, into @text, which is returned. */
const char *ctl_backends_problem(const struct ctl_backends *backends, const char *id, char *text, size_t room);

#endif
