/* SPDX-License-Identifier: BSD-3-Clause */
/* Inside the repository: what the files around repository.c share.
 *
 *     repository.c    the list of models, unloading, keep-alive
 *     open.c          one open: finds the model's files and chooses a variant
 *     open_state.c    what an open owns, and how it ends
 *     open_refusal.c  what a client is told that gets no model
 *     load.c          makes the model of a variant
 *     replaced.c      models whose files the folder does not have any more
 *     release.c       frees large memory beside the loop
 *     recheck.c       checks now and then that the files are there
 *     budget.c        the memory budget
 *     persist.c       writes what was packed for a model to the disk
 *     ready/          around READY: what model.conf says, warm-up, the digest of the file that serves
 *
 * Loop thread only, except for what is marked otherwise. */
#ifndef DAEMON_MODEL_REPOSITORY_INTERNAL_H
#define DAEMON_MODEL_REPOSITORY_INTERNAL_H

#include "daemon/base/scrub.h"
#include "daemon/model/failure/failing_variants.h"
#include "daemon/model/failure/load_diagnostics.h"
#include "daemon/model/repository.h"

#include <stdatomic.h>

/* An open on its way. The repository owns it, so that it outlives the caller's struct inf_open. */
struct inf_open_state {
	struct et_list_node node; /* in the repository's opens */
	struct inf_repository *repository;
	struct inf_open *open;
	bool is_uploaded;           /* a client's own program */
	uint64_t tenant;            /* the user who uploaded it, see et_source */
	uint64_t process_memory;    /* of the process for that user's programs */
	uint64_t user_memory;       /* see inf_open */
	const void *whose;          /* see inf_open */
	_Atomic(bool) is_cancelled; /* it ends when its step comes back; a step that has not begun does nothing */
	bool is_suspended;          /* in a step that runs elsewhere */
	_Atomic(bool) is_unloaded;  /* an administrator unloaded its model while it was looking for it */
	bool wants_backend;         /* the client names a backend: a failure says nothing about the model as a whole */
	char model[256], version[256], method[256], backend[256];
	int fd, data_fds[ET_PLATFORM_MAX_DATA];
	uint32_t n_data_fds;
	struct inf_work work;
	uint64_t memory_budget;           /* a copy: the configuration may change meanwhile */
	uint64_t max_bytes;               /* what may be decoded of its files, and compiled */
	uint64_t scan;                    /* the number of its look, see open.c */
	char pin[INF_CONFIG_VERSION_MAX]; /* the version that inferd.conf or model.conf wants; "": the latest */
	bool has_pin;                     /* inferd.conf says which */
	char below[256];                  /* versions from this one on could not be loaded; "": none yet */
	char skipped[400];                /* which they are, and why; else "" */
	enum inf_status skipped_status;
	struct inf_variants variants;
	uint32_t next;                      /* variant to try */
	struct inf_model *awaiting;         /* a reference */
	char tried[700];                    /* the variants that were tried, and why each failed */
	enum inf_load_failure last_failure; /* of the last variant that was tried */
	uint32_t n_failures[INF_N_LOAD_FAILURES];
	const struct inf_variant *refused; /* of those tried, the one with the most other methods that may run */
	char cache_dir[INF_CONFIG_PATH_MAX], folder[INF_CONFIG_PATH_MAX];
	struct inf_config_model_options options; /* a copy: the configuration may change meanwhile */
};

struct inf_repository {
	struct inf_repository_options o;
	struct inf_model_events events;
	struct et_list_node models, opens, unloads, diagnostics;
	struct et_list_node failing;  /* variants whose runs failed too often: failing_variants.h */
	struct et_list_node totals;   /* of unloaded models: run_totals.h */
	struct et_list_node unloaded; /* UNLOADED models whose Plans are still referenced */
	struct et_list_node loads;    /* loads with a Plan that wait for room */
	uint64_t n_leaving;           /* bytes of the memory budget that the helper is freeing */
	uint64_t n_at_once;           /* bytes of clients' memory freed on the loop since the last poll */
	_Atomic(uint64_t) n_looks;    /* looks at the folder that have begun */
	struct scan *scan;            /* the last one posted, while it is on its way */
	struct et_list_node scanned;  /* scans that are back and have waiters to answer */
	struct inf_recheck *recheck;  /* the one posted, while it is on its way */
	uint64_t rechecked_ns;        /* when the last one was posted */
	struct inf_scrub *scrub;      /* NULL: nothing is kept, or it could not be started */
	uint64_t scrubbed_ns;         /* when it was last woken */
	uint32_t n_pins_opening;      /* pinned models that inf_repository_reconfigured asked for */
	uint32_t n_busy;              /* steps on the helper's thread, and scans until all waiters are answered */
	_Atomic(bool) is_closing;     /* any thread may ask */
	bool has_helper;
};

/* --- repository.c --- */

/* Whether inf_repository_unload waits for @model: it must not be opened meanwhile. */
bool inf_repository_is_unloading(struct inf_repository *repository, const char *model);
/* --- open_state.c --- */

/* The state of @open, in the repository's opens; it takes over the descriptors. NULL: no memory. */
struct inf_open_state *inf_open_state_new(struct inf_repository *repository, struct inf_open *open);
/* Where the folder is not looked at, because the client brings its own program or wants another method of a loaded one:
 * make that the only variant. False: no memory. */
bool inf_open_take_files(struct inf_open_state *state);
/* Run a step of @state on the helper's thread; a client's own program on a thread of its user's. */
void inf_open_post(struct inf_open_state *state, struct inf_work *work);
/* Close the client's descriptors. This may take as long as reading does: on the helper's thread where there is a
 * choice. */
void inf_open_close_files(struct inf_open_state *state);
/* Drop the variants that were found, to search for others. */
void inf_open_drop_variants(struct inf_open_state *state);
/* Free @state and call done. @error, a sentence or NULL, and @model, borrowed or NULL, are as done gets them. */
void inf_open_finish(struct inf_open_state *state, enum inf_status status, const char *error, struct inf_model *model);

/* --- open_refusal.c --- */

/* What the client is answered when no variant can run. */
enum inf_status inf_open_failure_status(const struct inf_open_state *state);
/* Log why an open failed, unless its user causes too many such lines. */
void inf_open_warn(const struct inf_open_state *state, const char *error);
/* Whether the client that asks with @open may know of @model. */
bool inf_open_may_see(const struct inf_open *open, const char *model);
/* Each of these finishes @state: @program lacks the method; the client may not open the model; this process may not
 * read the model's folder; and there is no such model or version, which inf_repository_scan tells (an inf_scan_fn). */
void inf_open_refuse_method(struct inf_open_state *state, const struct et_program *program);
void inf_open_refuse_client(struct inf_open_state *state);
void inf_open_refuse_denied(struct inf_open_state *state);
void inf_open_refuse_absent(void *state, int rc, const struct inf_variants *models, size_t n);

/* --- open.c --- */

/* The `loaded` event of a model: the opens that wait for it go on. @self is the repository. */
void inf_opens_model_loaded(void *self, struct inf_model *model);
/* Charge the client whose own program @model is, see struct inf_open. False with a sentence in @why, of @room bytes. */
bool inf_opens_charge(struct inf_repository *repository, struct inf_model *model, uint64_t n_bytes, char *why,
	size_t room);
/* Opens that are looking for @model fail, because it is being unloaded and they would load it again. Whether there are
 * any. */
bool inf_opens_forget(struct inf_repository *repository, const char *model);
/* Answer every open that waits. */
void inf_opens_end(struct inf_repository *repository);

/* --- load.c --- */

/* Start to load @method of @v: a model of the repository, LOADING; the `loaded` event follows. @n_crashes: how
 * often its backend's process died in earlier loads. NULL: no memory. */
struct inf_model *inf_load_start(struct inf_open_state *state, const struct inf_variant *v, const char *method,
	uint32_t n_crashes);
/* Memory was freed, or will not be: loads that wait for room check again. */
void inf_loads_retry(struct inf_repository *repository);

/* --- release.c --- */

/* Give up references to a program and a Plan; either may be NULL. The last references are dropped on the helper's
 * thread, because freeing a gigabyte takes long enough for every client to notice. gone(arg) is called on the loop when
 * that is done, perhaps at once; NULL is fine. @n_bytes count as used until then. @self is the repository. */
void inf_repository_release_async(void *self, struct et_program *program, struct et_plan *plan, uint64_t n_bytes,
	void (*gone)(void *arg), void *arg);

/* --- replaced.c --- */

/* @state has found the files of its model and chosen the loaded model @chosen. Loaded models of other files are
 * replaced; those of these files are not. What a look that began later has told stays, and counts for @chosen as
 * well. */
void inf_repository_note_found(struct inf_open_state *state, struct inf_model *chosen);
/* @state has found no files of its model, or of that version: loaded models of it are replaced. */
void inf_repository_note_absent(struct inf_open_state *state);
/* The folder does not have the files of @model any more: new clients do not get it. */
void inf_repository_mark_replaced(struct inf_repository *repository, struct inf_model *model);
/* Unload replaced models that have no Methods. */
void inf_repository_unload_replaced(struct inf_repository *repository);

/* --- recheck.c --- */

/* What the folder has now beside @model: other files (inf_variants_changed), and @newest ("": not known) as newest
 * version. */
void inf_repository_note_on_disk(struct inf_model *model, const char *changed, const char *newest);

/* --- budget.c --- */

enum inf_room {
	INF_ROOM,
	INF_ROOM_LATER, /* enough memory is being freed: ask again when some was, or when a worker is found stuck */
	INF_ROOM_NEVER, /* too little even so */
};
/* Make room for what @asking (NULL: no model) @needs, or has already if @is_counted. Unloads models without Methods
 * that no stuck worker holds, least recently used first, never @asking. With INF_ROOM_NEVER a sentence in @reason, of
 * @room bytes, that says which models hold the rest. */
enum inf_room inf_repository_make_room(struct inf_repository *repository, const struct inf_model *asking,
	const struct inf_model_use *needs, bool is_counted, char *reason, size_t room);
/* Tell the delegates how much memory their instances may take: what the budget leaves beside the rest of the models
 * that can't be unloaded, and not more than the machine has. */
void inf_repository_limit_instances(struct inf_repository *repository);
/* The memory that the budget and the machine have for another model, if all are unloaded that can be. */
uint64_t inf_repository_room(const struct inf_repository *repository);
/* Whether the machine has the memory for the first instances and one run of a model that @needs so much; else a
 * sentence in @reason, of @room bytes. */
bool inf_repository_machine_has_room(const struct inf_repository *repository, const struct inf_model_use *needs,
	char *reason, size_t room);
/* The `has_room` event of a model that is about to be READY. @self is the repository. */
bool inf_repository_has_room(void *self, const struct inf_model *model, char *reason, size_t room);
/* Loaded models have grown, perhaps beyond the budget: unload models without Methods until the rest fits. */
void inf_repository_shrink(struct inf_repository *repository);

/* --- persist.c --- */

/* @model is READY: write what its backends have packed to the store, if there is one, on the helper's thread. */
void inf_repository_keep(struct inf_repository *repository, const struct inf_model *model);

/* --- ready/digest.c --- */

/* @model is READY: compute the digest of its file on the helper's thread. */
void inf_repository_compute_digest(struct inf_repository *repository, struct inf_model *model);

#endif
