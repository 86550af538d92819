/* SPDX-License-Identifier: BSD-3-Clause */
/* Repository: which models exist, which are loaded, and loading one.
 *
 * A caller asks for a model with a struct inf_open, which it keeps until done is called or it cancels. Any number
 * of opens may wait for one load. Each open tries the variants of its model in the configured order until one is
 * READY, and keeps which were tried and why each failed. Slow work runs on the helper's thread. Loop thread only. */
#ifndef DAEMON_MODEL_REPOSITORY_H
#define DAEMON_MODEL_REPOSITORY_H

#include "daemon/base/helper.h"
#include "daemon/base/log_quota.h"
#include "daemon/model/failure/failing_variants.h"
#include "daemon/model/model.h"
#include "daemon/model/run_totals.h"
#include "daemon/model/variant.h"
#include "daemon/queue/stuck.h"
#include "ipc/message.h"
#include "ipc/region.h"

struct inf_repository;

struct inf_repository_options {
	const struct inf_config *config; /* its contents may change, see inf_repository_reconfigured */
	const struct et_registry *registry;
	const struct et_allocator *shared_pages; /* for activations that backends in other processes use */
	const struct inf_queues *queues;
	const struct inf_stuck_workers *stuck; /* of those queues */
	struct inf_helper *helper;
	const struct et_log *log;
	struct et_platform_store *store; /* for packed weights; NULL: nothing is kept. Outlives the repository. */
	/* Ask, from any thread, that the loop calls inf_repository_poll soon. */
	void (*notify)(void *self);
	void *self;
};

struct inf_open {
	/* The caller's. Strings are copied by inf_repository_open. */
	const char *model, *version, *method, *backend; /* "": not given */
	int fd;                                         /* -1, or an uploaded program; consumed */
	struct inf_file_id file;                        /* of fd */
	int data_fds[ET_PLATFORM_MAX_DATA];             /* the program's data files; consumed */
	struct inf_data_ids data;                       /* of data_fds */
	/* The user who asks: users take turns on the helper's thread, and only this one waits for the file systems
	 * of fd and data_fds. NULL: the daemon itself. */
	const void *whose;
	uint64_t tenant;         /* the user who uploaded fd, see et_source; 0 for a model of the folder */
	uint64_t process_memory; /* of the process for that user's programs from now on, in bytes; 0: any amount */
	uint64_t user_memory;    /* of that user, in that process and shared with it; 0: any amount */
	bool must_scan;          /* look at the model's files and backends even if a READY model matches */
	/* Of a client's own program: the bytes that its user may still be charged; 0: any number. What is decoded and
	 * compiled takes no more. */
	uint64_t max_bytes;
	/* Charge the user who asks for @model, before its instances are made, with the @n_bytes that it takes besides
	 * its files. False with a sentence in @why, of @room bytes; else model->gone will give them back. NULL: nobody
	 * is charged. */
	bool (*charge)(struct inf_open *open, struct inf_model *model, uint64_t n_bytes, char *why, size_t room);
	/* Open another method of this model's Program, even if its files are gone: the folder is not looked at. The
	 * model is loaded; model, version and backend are its own, fd is -1. The caller keeps it until done is
	 * called. NULL: none. */
	struct inf_model *beside;
	/* Whether who asks may open @model of the folder, and know of it. NULL: any. Called until done is. */
	bool (*may_open)(const struct inf_open *open, const char *model);
	struct inf_log_quota *log_quota; /* for lines about this open; valid until done is called; NULL: no limit */
	/* Called once, perhaps before inf_repository_open returns. On INF_OK @model is loaded; take a reference to
	 * keep it. Else @error is a sentence. @open may be freed inside. */
	void (*done)(struct inf_open *open, enum inf_status status, const char *error, struct inf_model *model);

	/* The repository's. */
	struct inf_open_state *state;
};

/* @options is copied; what it points to must outlive the repository. -ENOMEM, or 0. */
int inf_repository_new(struct inf_repository **ret_repository, const struct inf_repository_options *options);
/* Every model must be UNLOADED or FAILED (inf_repository_unload_all, then poll until inf_repository_is_idle). Waiting
 * opens are answered. NULL is fine; returns NULL. */
struct inf_repository *inf_repository_free(struct inf_repository *repository);

/* Get a model. */
void inf_repository_open(struct inf_repository *repository, struct inf_open *open);
/* The owner of the helper's work that scans @model of the folder: scans of one model run one after another, those of
 * different models beside each other (but for equal hashes of their names). */
const void *inf_scan_turn(const char *model);
/* Cancel @open: done is called with INF_CANCELLED, at once or when a step that cannot be interrupted has come back
 * (reading a file may take long); until then the repository uses what it was given. Nothing happens if done was
 * called. */
void inf_repository_cancel(struct inf_repository *repository, struct inf_open *open);

/* Unload all versions of @model: no new Methods or requests. done(done_arg, NULL) is called when no request runs any
 * more and the memory is free, except for the Plans of Methods that are still open. If a part of it can't be freed
 * before a long run of another model ends, done(done_arg, held) is called instead, where held is a sentence; the part
 * is freed and counted as free when that run ends. Opens that are looking for its files fail. False if nothing of it
 * is loaded and no open is looking for it. */
bool inf_repository_unload(struct inf_repository *repository, const char *model,
	void (*done)(void *arg, const char *held), void *done_arg);
/* Look which unloads are held up. Returns when to look again; UINT64_MAX: not before another unload. */
uint64_t inf_repository_check_held(struct inf_repository *repository);
void inf_repository_unload_all(struct inf_repository *repository);
/* Forget the failed loads of @model and its methods, and the failed runs of its variants: the next open tries again.
 * Whether a variant was passed over for its failed runs. */
bool inf_repository_retry(struct inf_repository *repository, const char *model);

/* Opens pass over the variant of @model from now on, because its runs failed too often, as @why says. False: no
 * memory. */
bool inf_repository_pass_over(struct inf_repository *repository, const struct inf_model *model, const char *why);
/* Why they do; NULL: they don't. Valid until one of these calls. */
const char *inf_repository_is_passed_over(const struct inf_repository *repository, const struct inf_model *model);
/* They don't any more. */
void inf_repository_take_back(struct inf_repository *repository, const struct inf_model *model);
/* The same for all variants that need @backend. */
void inf_repository_retry_backend(struct inf_repository *repository, const char *backend);
/* The variants that are passed over: a list for inf_failing_variants_at. */
const struct et_list_node *inf_repository_failing(const struct inf_repository *repository);

/* Give up a reference to a client's memory, perhaps the last one: the helper's thread frees a large region, and a
 * region that comes with many others. gone(arg) is called on the loop when that is done, perhaps at once.
 * @repository may be NULL after inf_repository_free. */
void inf_repository_release_async_region(struct inf_repository *repository, struct inf_region *region,
	void (*gone)(void *arg), void *arg);

/* Whether the loop may free @n_bytes itself: they are few, also together with those freed since the last
 * inf_repository_poll. The call counts them. @repository may be NULL. */
bool inf_repository_is_little(struct inf_repository *repository, uint64_t n_bytes);
/* Free a Method (NULL is fine) with a large state of @n_bytes on the helper's thread; gone(arg) as above. */
void inf_repository_release_async_method(struct inf_repository *repository, struct et_method *method, uint64_t n_bytes,
	void (*gone)(void *arg), void *arg);

/* Whether there is room for @n_bytes more of the states of @model's Methods, perhaps after unloading models without
 * Methods; else a sentence in @reason, of @room bytes. */
bool inf_repository_has_room_for_state(struct inf_repository *repository, const struct inf_model *model,
	uint64_t n_bytes, char *reason, size_t room);
/* The memory, in bytes, of all models that are loaded or being freed. */
uint64_t inf_repository_memory(const struct inf_repository *repository);

/* One inf_repository_poll answers at most so many scans of the folder. */
enum { INF_REPOSITORY_ANSWERS = 16 };
/* List the folder on the helper's thread; inf_repository_poll calls @done. @models is the repository's, for the
 * length of the call. With -ENOMEM @done is called at once. */
typedef void (*inf_scan_fn)(void *arg, int rc, const struct inf_variants *models, size_t n_models);
void inf_repository_scan(struct inf_repository *repository, inf_scan_fn done, void *arg);

/* All models that are not UNLOADED, also failed ones: a list of struct inf_model by `node`. */
const struct et_list_node *inf_repository_models(const struct inf_repository *repository);
/* Run totals of unloaded models of the folder: a list of struct inf_run_totals by `node`. */
const struct et_list_node *inf_repository_totals(const struct inf_repository *repository);
/* A model that clients can use without a load; NULL: there is none. @version and @method may be "". */
struct inf_model *inf_repository_find_ready(struct inf_repository *repository, const char *model, const char *version,
	const char *method);
/* Whether that version of @model has diagnostics: why the last loads of it, or of methods of it, failed, or which
 * variants were passed over; then in @text, of @room bytes. *ret_is_refused: no client can use it. */
bool inf_repository_diagnose(struct inf_repository *repository, const char *model, const char *version, char *text,
	size_t room, bool *ret_is_refused);
/* Keep @text as a diagnostic of that version of @model, which clients can use, until its next load. */
void inf_repository_note(struct inf_repository *repository, const char *model, const char *version, const char *text);

/* Handle what other threads have finished. */
void inf_repository_poll(struct inf_repository *repository);
/* Unload models that had no Method for their keep-alive; call now and then. */
void inf_repository_evict(struct inf_repository *repository, uint64_t now_ns);
/* Check whether the files of loaded models are still there, and their persisted weights undamaged, if the last check is
 * some time ago; call now and then. */
void inf_repository_recheck(struct inf_repository *repository, uint64_t now_ns);
/* A Method of @model was closed, or has moved to another model. */
void inf_repository_method_gone(struct inf_repository *repository, struct inf_model *model);
/* The configuration's contents have changed: apply pins and keep-alives, and load pinned models. */
void inf_repository_reconfigured(struct inf_repository *repository);
/* Whether each pinned model is loaded and warmed up, or its load has failed. Changes in inf_repository_poll. */
bool inf_repository_has_pinned(const struct inf_repository *repository);
/* Whether no model is loaded, being loaded or being unloaded, and no step runs on the helper's thread. */
bool inf_repository_is_idle(const struct inf_repository *repository);

#endif
