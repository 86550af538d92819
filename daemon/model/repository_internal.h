/* SPDX-License-Identifier: BSD-3-Clause */
/* What repository.c and loader.c share: the one keeps servings and lets them go, the other gets them made. */
#ifndef DAEMON_MODEL_REPOSITORY_INTERNAL_H
#define DAEMON_MODEL_REPOSITORY_INTERNAL_H

#include "daemon/model/load_diagnostics.h"
#include "daemon/model/repository.h"

#include <stdatomic.h>

/* An open on its way; owned by the repository, whatever becomes of the caller's struct. */
struct inf_open_state {
	struct et_list_node node; /* in the repository's opens */
	struct inf_repository *repository;
	struct inf_open *open;
	bool is_uploaded;  /* a client's own program */
	uint64_t tenant;   /* whose, see et_source */
	const void *whose; /* see inf_open */
	_Atomic(bool)
		is_cancelled; /* to be ended when the step it is in comes back; one that has not begun does nothing */
	bool is_suspended;    /* in a step that runs elsewhere */
	bool is_unloaded;     /* its model was, by somebody who asked after it had begun to look */
	bool is_particular;   /* whoever asks wants a certain backend: no failure of the model's as such */
	char model[256], version[256], method[256], backend[256];
	int fd, data_fds[ET_PLATFORM_MAX_DATA];
	uint32_t n_data_fds;
	struct inf_work work;
	uint64_t scan; /* its number; see loader.c */
	struct inf_variants variants;
	uint32_t next;              /* variant to try */
	struct inf_model *awaiting; /* a reference */
	char tried[700];
	bool is_transient;                    /* the last one tried failed for want of memory */
	const struct inf_variant *refused;    /* of those tried, the one with the most other methods that may run */
	uint32_t n_missing, n_down, n_broken; /* of those tried: for want of an operator or a backend, because
	                                        * that has crashed; else */
	char cache_dir[INF_CONFIG_PATH_MAX], folder[INF_CONFIG_PATH_MAX];
	struct inf_config_model_options options; /* a copy: the configuration may change meanwhile */
};

struct inf_repository {
	struct inf_repository_options o;
	struct inf_model_events events;
	struct et_list_node models, opens, unloads, diagnostics;
	struct et_list_node unloaded; /* servings that are, whose Plans somebody still holds */
	struct et_list_node makes;    /* with a Plan, that wait for room */
	uint64_t n_leaving;           /* bytes of the memory budget that the helper gives back */
	uint64_t n_at_once;           /* bytes of clients' memory given back on the loop since the last poll */
	_Atomic(uint64_t) n_looks;    /* that have begun */
	struct scan *scan;            /* the last one posted, while it is on its way */
	struct et_list_node scanned;  /* those that are back, and whose waiters are not all answered */
	struct inf_recheck *recheck;  /* likewise */
	uint64_t rechecked_ns;        /* when the last one was posted */
	uint32_t n_busy;              /* steps on the helper's thread, and scans until all are answered */
	bool is_closing, has_helper;
};

/* Whether inf_repository_unload waits for it: it is not to be opened meanwhile. */
bool inf_repository_is_unloading(struct inf_repository *repository, const char *model);
enum inf_room {
	INF_ROOM,
	INF_ROOM_LATER, /* enough is on its way out: ask again when something has gone, or is held up */
	INF_ROOM_NEVER, /* too little even so */
};
/* Make room for what @whose (NULL: nobody) @needs, or has already if that @is_counted, by unloading what nobody uses and no
 * stuck worker holds, least recently used first; never @whose itself. With INF_ROOM_NEVER a sentence that says who
 * holds the rest. */
enum inf_room inf_repository_make_room(struct inf_repository *repository, const struct inf_model *whose,
	const struct inf_model_use *needs, bool is_counted, char *reason, size_t room);
/* The event of a serving that is about to be READY. @self is the repository. */
bool inf_repository_fits(void *self, const struct inf_model *model, char *reason, size_t room);
/* What was loaded has grown, perhaps beyond the budget: unload what nobody uses until it fits again. */
void inf_repository_shrink(struct inf_repository *repository);
/* Memory has gone, or will not: makes that wait for room look again. */
void inf_opens_find_room(struct inf_repository *repository);
/* Give up references to a program and a Plan; either may be NULL. The last ones are dropped on the helper's thread:
 * giving back a gigabyte takes long enough for every client to notice. gone(arg) is called on the loop when that is
 * done, perhaps at once; NULL is fine. @n_bytes count as used until then. @self is the repository. */
void inf_repository_release_async(void *self, struct et_program *program, struct et_plan *plan, uint64_t n_bytes,
	void (*gone)(void *arg), void *arg);
/* Event of a serving that is not LOADING any more: those who wait for it go on. @self is the repository. */
void inf_opens_model_loaded(void *self, struct inf_model *model);
/* It is not in the folder any more: nobody new gets it. */
void inf_repository_mark_replaced(struct inf_repository *repository, struct inf_model *model);
/* What serves nobody new goes when nobody has it. */
void inf_repository_unload_replaced(struct inf_repository *repository);
/* Those that are looking for @model come to nothing: it is being unloaded, and they would bring it back. Whether there are
 * any. */
bool inf_opens_forget(struct inf_repository *repository, const char *model);
/* @serving is READY: what its backends have made of it is written to the store, if there is one, beside all else. */
void inf_repository_keep(struct inf_repository *repository, const struct inf_model *model);
/* Answer every open that waits. */
void inf_opens_end(struct inf_repository *repository);

#endif
