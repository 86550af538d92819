/* SPDX-License-Identifier: BSD-3-Clause */
/* Model: one method of one variant of a model, loaded once and shared by every client that uses it.
 *
 * It holds the Program and the Plan, the frames that runs borrow, and the statistics. The repository makes it and
 * decides when it is unloaded.
 *
 *     LOADING     being read, compiled, and prepared on a worker of each queue
 *     FAILING     the load has failed; workers still give back the instances that they made
 *     FAILED      `failure` and `reason` say why
 *     READY       new Methods may be opened; the other workers prepare it, each before it takes another request
 *     SUPERSEDED  loaded, but another variant runs better: the successor gets new clients and stateless Methods
 *     ABANDONED   loaded, but its backend was given up: requests fail, and its Methods move to the successor, if any
 *     UNLOADING   no new Methods or requests; ends when the running requests have ended
 *     UNLOADED    instances and frames are gone; the Plan is freed with the last Method
 *
 *     LOADING -> READY | FAILING | FAILED          FAILING -> FAILED
 *     READY -> SUPERSEDED | ABANDONED              SUPERSEDED -> READY | ABANDONED       ABANDONED -> READY
 *     READY, SUPERSEDED, ABANDONED -> UNLOADING    UNLOADING -> UNLOADED
 *
 * Loop thread only, except for the calls marked otherwise. */
#ifndef DAEMON_MODEL_MODEL_H
#define DAEMON_MODEL_MODEL_H

#include "config/model_conf.h"
#include "daemon/base/file_id.h"
#include "daemon/model/failure/load_failure.h"
#include "daemon/model/failure/run_failures.h"
#include "daemon/model/run_stats.h"
#include "daemon/model/width.h"
#include "daemon/queue/queues.h"
#include "runtime/base/list.h"
#include "runtime/method.h"
#include "runtime/plan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

enum inf_model_state {
	INF_MODEL_LOADING,
	INF_MODEL_FAILING,
	INF_MODEL_FAILED,
	INF_MODEL_READY,
	INF_MODEL_SUPERSEDED,
	INF_MODEL_ABANDONED,
	INF_MODEL_UNLOADING,
	INF_MODEL_UNLOADED,
	INF_N_MODEL_STATES,
};
const char *inf_model_state_name(enum inf_model_state state);

/* What the workers were last given to do for a model. */
enum inf_model_task_kind {
	INF_MODEL_TASK_NONE, /* nothing, or inf_model_poll has seen all of it done */
	INF_MODEL_TASK_PREPARE,
	INF_MODEL_TASK_RELEASE,
};

struct inf_model;
struct inf_model_events {
	void *self;
	/* LOADING is over: the model is READY or FAILED. */
	void (*loaded)(void *self, struct inf_model *model);
	/* The model is UNLOADED. */
	void (*unloaded)(void *self, struct inf_model *model);
	/* Ask the loop, from any thread, to call inf_model_poll soon. @notify_self must outlive the workers: the
	 * loop may free the model and its events while a worker is still inside this call. */
	void (*notify)(void *notify_self);
	void *notify_self;
	/* Whether the model fits into the memory budget, now that the instances of a worker of each queue are measured;
	 * else a sentence in @reason, of @room bytes. NULL: always. */
	bool (*has_room)(void *self, const struct inf_model *model, char *reason, size_t room);
	/* Take over a reference to @program and one to @plan, and drop them later beside the loop: they may be the last
	 * ones, and freeing a large model takes long. Either may be NULL. @n_bytes is the memory that they keep. When
	 * they are dropped, gone(arg) is called on the loop; @gone may be NULL. */
	void (*free_later)(void *self, struct et_program *program, struct et_plan *plan, uint64_t n_bytes,
		void (*gone)(void *arg), void *arg);
};

struct inf_model {
	struct et_list_node node; /* in the repository */
	uint32_t n_refs;
	_Atomic(enum inf_model_state) state; /* set by inf_model_set_state alone; workers read it as a request ends */
	char *model, *version, *method, *backend, *path;
	char digest[ET_PLATFORM_DIGEST]; /* of the file; "": not computed yet */
	char *passed_over;               /* the variants that it was preferred to, and why; NULL: there are none */
	char *warning; /* why it serves although a newer version or file is there, or its runs fail; NULL or "" */
	struct inf_model_conf *conf; /* what model.conf says of its default method; a reference, or NULL */
	uint32_t n_warm_up;          /* runs on zeros before it is READY */
	char newer[16];              /* READY and the newest that is loaded: a newer version in the folder; or "" */
	bool is_fixed;               /* inferd.conf or model.conf says that this version serves, not the newest */
	bool is_fixed_by_section;    /* inferd.conf decided what serves: a number or `latest` */
	const char *changed; /* what the last check found to be another file on disk: "its file"; NULL: nothing */
	struct inf_file_id file;
	struct inf_data_ids data;
	struct inf_conf_ids conf_ids; /* of `conf` */
	bool is_uploaded;             /* a client's own program */
	_Atomic(bool) is_abandoned;   /* LOADING, and no open waits for it any more */
	bool is_quiet;                /* what becomes of it is not logged: its user has caused many such lines */
	uint64_t tenant;              /* the user who uploaded it, see et_source */
	/* FAILING, FAILED: why. */
	enum inf_load_failure failure;
	char reason[600];
	uint32_t n_crashes; /* how often its backend's process died while it was loaded */
	const struct inf_model_events *events;
	const struct et_log *log;
	const struct et_allocator *shared_pages;
	const struct inf_queues *queues;

	struct et_program *program;
	struct et_plan *plan;
	const struct et_plan_info *info;

	/* Preparing and releasing: one task for each worker, all of the same kind. */
	struct inf_model_task {
		struct inf_task task;
		struct inf_model *model;
		struct et_diag diag;
		enum et_status status;
		_Atomic(bool) has_begun; /* it belongs to who has set this */
		_Atomic(bool) is_done;
		_Atomic(bool) is_postponed; /* PREPARE: the loop posts it again when there is no maker */
		/* Memory of its worker's instances: all of them, and those one core wide. Read when the task is
		 * done. */
		uint64_t n_bytes, n_single_core_bytes;
	} *tasks;
	enum inf_model_task_kind task_kind; /* constant while a task is left, so that workers may read it */
	_Atomic(bool) has_maker;            /* a worker does its PREPARE task; others postpone theirs */
	/* Tasks that have not ended. The last one to end calls events->notify; each PREPARE task does so, too. */
	_Atomic(uint32_t) n_tasks_left;

	pthread_mutex_t frames_lock;
	struct inf_frame_entry {
		struct inf_frame_entry *next;
		struct et_frame *frame;
		uid_t user; /* whose run used it last */
	} *frames;          /* that no run has borrowed */
	uint32_t n_frames_idle;
	_Atomic(uint32_t) n_frames;

	_Atomic(uint32_t) n_jobs;  /* requests in flight; the last one to end while UNLOADING notifies */
	_Atomic(uint32_t) n_stuck; /* of those, requests that were given up while a worker still runs them */
	/* Whether the model is the answer to an open request that leaves out the version (is_newest), the method
	 * (is_default_method), or the backend (is_preferred). */
	bool is_newest, is_default_method, is_preferred;
	/* The folder has other files by now: its clients keep it, new clients do not get it. A later look may find
	 * the files again (replaced.c). */
	bool is_replaced;
	/* Its persisted weights were found damaged: new clients do not get it, and its Methods move to another load of
	 * the same variant (fallback.c). is_reloading: that load is on its way, and requests wait for it; reload_ns:
	 * when it was last begun. */
	bool is_damaged, is_reloading;
	uint64_t reload_ns;
	/* The number of the last look at the folder (see open.c) that told whether its files are there, and of
	 * the last one that told which version is the newest. */
	uint64_t scan, newest_scan;
	/* Called with gone_arg when the memory is free: returns what the user is charged for an uploaded program. */
	void (*gone)(void *arg);
	void *gone_arg;
	_Atomic(uint32_t) n_covered; /* requests in flight whose frames that charge pays for */
	uint32_t n_methods;
	uint32_t n_sharing;          /* of those, Methods that share the state of another one */
	uint64_t last_used_ns;       /* when the last Method was closed */
	struct inf_model *successor; /* the variant that its Methods move to: a reference; NULL: none. See fallback.h */
	uint64_t keep_alive_ns;      /* how long it stays loaded after its last Method was closed */
	bool is_pinned;              /* it stays loaded without Methods, until an administrator unloads it */
	struct inf_run_stats stats;
	struct inf_run_failures run_failures;
	struct inf_widths widths;
};

/* A new model, LOADING, with one reference. NULL: no memory. The strings are copied. */
struct inf_model *inf_model_new(const struct inf_queues *queues, const struct inf_model_events *events,
	const struct et_allocator *shared_pages, const struct et_log *log, const char *model, const char *version,
	const char *method);
struct inf_model *inf_model_ref(struct inf_model *model);
/* NULL is fine; returns NULL. The last reference must not go before nothing is loaded any more: UNLOADED or FAILED, or
 * LOADING before inf_model_prepare. */
struct inf_model *inf_model_unref(struct inf_model *model);

/* Log the move and make it. An illegal move is logged as an error and not made. */
void inf_model_set_state(struct inf_model *model, enum inf_model_state state);
/* LOADING or FAILING: events->loaded is still to come. */
bool inf_model_is_loading(const struct inf_model *model);
/* READY, SUPERSEDED or ABANDONED: its Methods exist and their requests are admitted. */
bool inf_model_is_loaded(const struct inf_model *model);

/* The Plan is made: prepare it on every worker. @program and @plan are taken over.
 * events->loaded follows, from inf_model_poll, when one worker of each queue that the Plan needs has its instances. */
void inf_model_prepare(struct inf_model *model, struct et_program *program, struct et_plan *plan);
/* Loading failed with @status before inf_model_prepare: LOADING -> FAILED. @reason is the sentence. events->loaded is
 * called. */
void inf_model_fail(struct inf_model *model, enum et_status status, const char *reason);
/* Loaded -> UNLOADING; events->unloaded follows when the running requests have ended. Nothing happens if it is not
 * loaded. */
void inf_model_unload(struct inf_model *model);
/* Whether the model is UNLOADING, no request of it runs, and a worker that has instances of it has been in one
 * instruction of another request for @long_ns. */
bool inf_model_is_held(const struct inf_model *model, uint64_t long_ns);
/* Whether the model can't be unloaded before worker @worker of queue @queue has done something for it. */
bool inf_model_needs_worker(const struct inf_model *model, uint32_t queue, uint32_t worker);
/* See whether tasks or running requests have ended; calls events. */
void inf_model_poll(struct inf_model *model);
/* Make the worker's instances of the model if it has none, for one core or for all cores. Call it before each segment
 * of a run, on the worker's thread. Usually there is nothing to do, because the worker has prepared the model already.
 * A worker whose turn has not come does it here, and one that lacked the memory for it tries again. */
enum et_status inf_model_prepare_worker(struct inf_model *model, struct inf_worker *worker, bool is_all_cores,
	struct et_diag *diag);

/* Borrow memory for the values of a run of @user, until inf_model_give_frame. Nothing that runs of other users have
 * left in it can reach the run's outputs. Any thread. */
enum et_status inf_model_take_frame(struct inf_model *model, uid_t user, struct inf_frame_entry **ret_frame,
	struct et_diag *diag);
void inf_model_give_frame(struct inf_model *model, struct inf_frame_entry *frame);

/* Run the model's `warm_up` on a worker that has prepared it, with the worker's @env. The worker's thread. */
void inf_model_warm_up(struct inf_model *model, const struct et_worker_env *env);

/* One request is admitted; one has ended. Any thread. */
void inf_model_job_begun(struct inf_model *model);
void inf_model_job_ended(struct inf_model *model);

/* Memory of a loaded model, in bytes. */
struct inf_model_use {
	uint64_t n_file;      /* copies of the program and its data files */
	uint64_t n_prepared;  /* decoded, compiled and packed once for all workers */
	uint64_t n_instances; /* on the workers; a worker that is not ready yet counts as much as one that is */
	uint64_t n_frames;    /* one for each worker, or those that exist now where they are more */
	uint64_t n_states;    /* of its Methods; buffers that Methods share count once */
};
struct inf_model_use inf_model_use(const struct inf_model *model);
/* What @program and @plan with @data will use. Its instances are those that are made first, on one worker of each
 * queue; if @is_uploaded, those of all workers, for the largest sizes. */
struct inf_model_use inf_model_estimate_use(const struct inf_queues *queues, const struct et_program *program,
	const struct et_plan *plan, const struct inf_data_ids *data, bool is_uploaded);
/* The sum of all parts; UINT64_MAX where it overflows. */
uint64_t inf_model_total(const struct inf_model_use *use);
uint64_t inf_model_memory(const struct inf_model *model);

#endif
