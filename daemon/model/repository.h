/* SPDX-License-Identifier: BSD-3-Clause */
/* Repository: which models there are, which are loaded, and getting one loaded.
 *
 * Loading is asked for with an `inf_open`, which its owner keeps until done is called or it cancels. Any number of
 * opens may wait for one load; each goes through the variants of its model in the configured order until one is
 * READY, and keeps what was tried and why it failed. Everything slow runs on the helper's thread. Loop thread only. */
#ifndef DAEMON_MODEL_REPOSITORY_H
#define DAEMON_MODEL_REPOSITORY_H

#include "daemon/base/helper.h"
#include "daemon/model/model.h"
#include "daemon/model/variant.h"
#include "daemon/queue/stuck.h"
#include "ipc/message.h"
#include "ipc/region.h"

struct inf_repository;

struct inf_repository_options {
	const struct inf_config *config; /* may change its contents, see inf_repository_reconfigured */
	const struct et_registry *registry;
	const struct et_allocator *shared_pages; /* for activations that backends elsewhere work on */
	const struct inf_queues *queues;
	const struct inf_stuck_workers *stuck; /* of these */
	struct inf_helper *helper;
	const struct et_log *log;
	struct et_platform_store
		*store; /* for what is made of models; NULL: nothing is kept. Outlives the repository. */
	/* Ask, from any thread, that the loop calls inf_repository_poll soon. */
	void (*notify)(void *self);
	void *self;
};

struct inf_open {
	/* The caller's. Strings are copied by inf_repository_open. */
	const char *model, *version, *method, *backend; /* "" for what is not said */
	int fd;                                         /* -1, or the program itself; consumed */
	struct inf_file_id file;                        /* of fd */
	int data_fds[ET_PLATFORM_MAX_DATA];             /* the program's data files; consumed */
	struct inf_data_ids data;                       /* of data_fds */
	const void *whose; /* who asks, and takes turns with others who do; alone waits for the file systems of fd
			* and data_fds. NULL: the daemon itself */
	uint64_t tenant;   /* 0 for a model of the folder; who brought fd, see et_source */
	bool is_anew;      /* look at the model's files and backends even if something that fits is READY */
	/* Another method of this one's Program, whatever has become of its files: nothing is looked for. READY; model, version
	 * and backend are its own, fd is -1. It stays until done is called. NULL: no such thing. */
	struct inf_model *beside;
	/* Called once, perhaps before inf_repository_open returns. On INF_OK @serving is READY; take a reference if it is
	 * to be kept. Else @error is a sentence. @open may be freed inside. */
	void (*done)(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model);

	/* The repository's. */
	struct inf_open_state *state;
};

/* @options is copied; what it points to must outlive the repository. -ENOMEM, or 0. */
int inf_repository_new(struct inf_repository **ret_repository, const struct inf_repository_options *options);
/* Every serving must be UNLOADED or FAILED (inf_repository_unload_all, then poll until inf_repository_is_idle). Opens
 * that wait are answered. NULL is fine; returns NULL. */
struct inf_repository *inf_repository_free(struct inf_repository *repository);

/* Get a model. */
void inf_repository_open(struct inf_repository *repository, struct inf_open *open);
/* End it: done is called with INF_CANCELLED, perhaps at once, perhaps when a step that cannot be interrupted has come back
 * (reading a file may take long); until then it keeps what it was given. Fine if done was called. */
void inf_repository_cancel(struct inf_repository *repository, struct inf_open *open);

/* No new Methods or requests on @model (all versions); done(done_arg) when none runs any more and its memory is free
 * but for the Plans of Methods still open. Opens that are looking for its files come to nothing. False if nothing of it is
 * loaded and nobody is looking. */
bool inf_repository_unload(struct inf_repository *repository, const char *model, void (*done)(void *arg),
	void *done_arg);
void inf_repository_unload_all(struct inf_repository *repository);
/* Forget that loading it, or a method of it, failed: it is tried again. */
void inf_repository_retry(struct inf_repository *repository, const char *model);

/* Give up a reference to a client's memory, which may be the last: the helper's thread gives back what is large, be it by
 * being many. gone(arg) is called on the loop when that is done, perhaps at once. @repository may be NULL when it is no more. Loop thread
 * only. */
void inf_repository_release_async_region(struct inf_repository *repository, struct inf_region *region,
	void (*gone)(void *arg), void *arg);

/* Whether giving @n_bytes back is for the loop: they are few, and so are all since the last inf_repository_poll with them.
 * @repository may be NULL. */
bool inf_repository_is_little(struct inf_repository *repository, uint64_t n_bytes);
/* Free a Method, or NULL, whose state of @n_bytes is not little, likewise. */
void inf_repository_release_async_method(struct inf_repository *repository, struct et_method *method, uint64_t n_bytes,
	void (*gone)(void *arg), void *arg);

/* Whether there is room for @n_bytes more of @serving's states, if need be after unloading what nobody uses; else a
 * sentence. */
bool inf_repository_has_room_for_state(struct inf_repository *repository, const struct inf_model *model,
	uint64_t n_bytes, char *reason, size_t room);
/* What all that is loaded, or on its way out, takes now. */
uint64_t inf_repository_memory(const struct inf_repository *repository);

/* How many answers about the folder one inf_repository_poll gives at the most. */
enum { INF_REPOSITORY_ANSWERS = 16 };
/* What lies in the folder: found out on the helper's thread, answered through @done by inf_repository_poll. @models is
 * lent. -ENOMEM: at once. */
typedef void (*inf_index_fn)(void *arg, int rc, const struct inf_variants *models, size_t n_models);
void inf_repository_scan(struct inf_repository *repository, inf_index_fn done, void *arg);

/* The loaded (or failed) ones, for status and statistics: a list of struct inf_model by `node`. */
const struct et_list_node *inf_repository_models(const struct inf_repository *repository);
/* The one a client would get without waiting; NULL: none is READY. @version and @method may be "". */
struct inf_model *inf_repository_find_ready(struct inf_repository *repository, const char *model, const char *version,
	const char *method);
/* Whether there is anything to tell of that version of @model: why the last attempts at it, or at methods of it, failed,
 * or which variants were passed over; then that in @text, of @room bytes. *ret_is_refused: none of its methods is known to have a
 * chance. */
bool inf_repository_why(struct inf_repository *repository, const char *model, const char *version, char *text,
	size_t room, bool *ret_is_refused);

/* Handle what has become ready. */
void inf_repository_poll(struct inf_repository *repository);
/* Unload what has been unused for its keep-alive; call now and then. */
void inf_repository_evict(struct inf_repository *repository, uint64_t now_ns);
/* See whether the files of what is loaded are still there, if it has been a while; call now and then. */
void inf_repository_recheck(struct inf_repository *repository, uint64_t now_ns);
/* A Method on @serving went. */
void inf_repository_method_gone(struct inf_repository *repository, struct inf_model *model);
/* The configuration's contents have changed: pins and keep-alives follow. Loads what is pinned. */
void inf_repository_reconfigured(struct inf_repository *repository);
/* Whether nothing is loaded, being loaded or being unloaded. */
bool inf_repository_is_idle(const struct inf_repository *repository);

#endif
