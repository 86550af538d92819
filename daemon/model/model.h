/* SPDX-License-Identifier: BSD-3-Clause */
/* Serving: one Plan in service, shared by every client that uses it.
 *
 * It holds the Program and the Plan, the frames that runs borrow, and what is counted. The repository makes it and
 * decides when it goes; while it is READY, Methods may be opened on it and their requests run.
 *
 *     LOADING    being read, compiled, and prepared on a worker of each queue
 *     READY      the other workers follow, each before it takes another request
 *     UNLOADING  no new Methods or requests; goes on when running requests have ended
 *     UNLOADED   contexts and frames are gone; the Plan goes with the last Method
 *     FAILED     `reason` says why
 *
 * Loop thread only, but for the calls marked otherwise. */
#ifndef DAEMON_MODEL_MODEL_H
#define DAEMON_MODEL_MODEL_H

#include "daemon/queue/queues.h"
#include "runtime/base/list.h"
#include "runtime/platform/platform.h"
#include "runtime/method.h"
#include "runtime/plan.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

enum inf_model_state {
	INF_MODEL_UNLOADED,
	INF_MODEL_LOADING,
	INF_MODEL_READY,
	INF_MODEL_UNLOADING,
	INF_MODEL_FAILED,
};
const char *inf_model_state_name(enum inf_model_state state);

/* What makes a file the same file, unchanged. */
struct inf_file_id {
	dev_t dev;
	ino_t ino;
	uint64_t n_bytes, mtime_ns, ctime_ns;
};
/* Of what stat says, and whether two are the same. */
struct inf_file_id inf_file_id(const struct stat *stat);
/* Whether nothing shows that the file changed in between. */
bool inf_file_id_equal(const struct inf_file_id *a, const struct inf_file_id *b);

/* The data files (`.ptd`) that go with a program, in the order in which names are looked for. */
struct inf_data_ids {
	uint32_t n;
	struct inf_file_id items[ET_PLATFORM_MAX_DATA];
};
bool inf_data_ids_equal(const struct inf_data_ids *a, const struct inf_data_ids *b);
uint64_t inf_data_ids_n_bytes(const struct inf_data_ids *ids);

enum { INF_N_RECENT = 64 };

struct inf_model_counts {
	_Atomic(uint64_t) n_success, success_ns;
	_Atomic(uint64_t) n_fail, fail_ns;
	_Atomic(uint64_t) queue_ns, run_ns;
	_Atomic(uint64_t) n_runs; /* that began */
	_Atomic(uint64_t) copied_bytes;
	_Atomic(uint64_t) last_ms; /* since the epoch */
	_Atomic(uint64_t) recent_ns[INF_N_RECENT];
	_Atomic(uint64_t) guess_ns; /* what the next run may cost on one core */
	bool may_be_quick;          /* no instruction of it can take long */
	_Atomic(uint32_t) n_quick;  /* runs that took less than waking a worker; a slow one halves it, or worse */
	/* Running averages of whole runs on one core and on all; and how many there were. */
	_Atomic(uint64_t) single_core_ns, all_cores_ns;
	_Atomic(uint32_t) n_single_core, n_all_cores, n_chosen;
	_Atomic(uint32_t) patience; /* doublings of the time until the slower way is tried again */
};

struct inf_model;
struct inf_model_events {
	void *self;
	/* LOADING is over: READY or FAILED. */
	void (*loaded)(void *self, struct inf_model *model);
	/* UNLOADED. */
	void (*unloaded)(void *self, struct inf_model *model);
	/* Ask the loop, from any thread, to call inf_model_poll soon. What @whom is outlives the workers: the loop may be
	 * quicker, and have let go of everything else while one of them is still in here. */
	void (*notify)(void *whom);
	void *whom;
	/* Whether it has room, with all that it takes now that a worker of each queue is ready for it; else a sentence in
	 * @reason, of @room bytes. */
	bool (*fits)(void *self, const struct inf_model *model, char *reason, size_t room);
	/* Take over references that may be the last ones: letting go of a large model takes long. Either may be NULL. They
	 * keep @n_bytes. gone(arg) is called on the loop when they are; NULL is fine. */
	void (*release)(void *self, struct et_program *program, struct et_plan *plan, uint64_t n_bytes,
		void (*gone)(void *arg), void *arg);
};

struct inf_model {
	struct et_list_node node; /* in the repository */
	uint32_t n_refs;
	enum inf_model_state state;
	char *model, *version, *method, *backend, *path;
	struct inf_file_id file;
	struct inf_data_ids data;
	bool is_uploaded; /* a client's own program */
	uint64_t tenant;  /* whose, see et_source */
	char reason[600];
	bool is_transient;  /* FAILED for want of memory or because its backend was down: it may well work later */
	bool is_down;       /* the latter */
	uint32_t n_crashes; /* so often was its backend's process lost while it was being loaded; FAILED */
	bool is_missing;    /* FAILED because an operator or a backend is not here; set before inf_model_fail */
	const struct inf_model_events *events;
	const struct et_log *log;
	const struct et_allocator *shared_pages;
	const struct inf_queues *queues;

	struct et_program *program;
	struct et_plan *plan;
	const struct et_plan_info *info;

	/* Preparing and releasing: one task a worker. */
	struct inf_model_task {
		struct inf_task task;
		struct inf_model *model;
		struct et_diag diag;
		enum et_status status;
		bool is_release;
		_Atomic(bool) has_begun, is_done;
		/* That its worker's contexts took, all of them and those one core wide; read when it is done. */
		uint64_t n_bytes, n_single_core_bytes;
	} *tasks;
	_Atomic(uint32_t) n_tasks_left; /* whoever brings it to 0 notifies, and each that prepared */
	bool has_tasks;                 /* posted and not yet seen done by poll */

	pthread_mutex_t frames_lock;
	struct inf_frame_entry {
		struct inf_frame_entry *next;
		struct et_frame *frame;
	} *frames; /* not borrowed */
	uint32_t n_frames_idle;
	_Atomic(uint32_t) n_frames;

	_Atomic(uint32_t) n_jobs;  /* in flight */
	_Atomic(uint32_t) n_stuck; /* of them: given up, but a worker is still in it */
	_Atomic(bool) is_ending;   /* whoever brings n_jobs to 0 notifies */
	/* It is what a client gets that asks for no version, method or backend in particular. */
	bool is_newest, is_default_method, is_preferred;
	/* Its files are not those of the folder any more: who has it keeps it, nobody else gets it. */
	bool is_replaced;
	/* The last look at the folder (see loader.c) that told whether it is, and the last that told which version is the newest. */
	uint64_t scan, newest_scan;
	/* Called with it when the memory is gone: what the last Method of a client's own program had charged. */
	void (*gone)(void *arg);
	void *gone_arg;
	uint64_t n_charged; /* of what it takes but for files and states, to the user whose own program it is */
	_Atomic(uint32_t) n_covered; /* requests in flight for whose runs that is */
	uint32_t n_methods;
	uint32_t n_sharing;    /* of them: what they share with others is another's */
	uint64_t last_used_ns; /* when the last Method went */
	/* Its backend was given up: no new Methods. See fallback.h. */
	bool is_given_up;
	bool wants_scan;             /* fallback.c's */
	struct inf_model *successor; /* where its Methods go on; a reference, or NULL */
	uint64_t keep_alive_ns;
	bool is_pinned;
	struct inf_model_counts stats;
};

/* A new one, LOADING, with one reference. NULL: no memory. The strings are copied. */
struct inf_model *inf_model_new(const struct inf_queues *queues, const struct inf_model_events *events,
	const struct et_allocator *shared_pages, const struct et_log *log, const char *model, const char *version,
	const char *method);
struct inf_model *inf_model_ref(struct inf_model *model);
/* NULL is fine; returns NULL. The last one must not come before UNLOADED or FAILED. */
struct inf_model *inf_model_unref(struct inf_model *model);

/* Loading is done in so far that there is a Plan: prepare it on every worker. @program and @plan are taken over.
 * events->loaded follows, from inf_model_poll, when one worker of each queue that the Plan needs has its contexts. */
void inf_model_prepare(struct inf_model *model, struct et_program *program, struct et_plan *plan);
/* What @status, with which loading it failed, means for those who want it; before it is FAILED. */
void inf_model_note_failure(struct inf_model *model, enum et_status status);
/* Loading failed with that sentence. events->loaded is called. */
void inf_model_fail(struct inf_model *model, const char *reason);
/* READY -> UNLOADING; events->unloaded follows when the running requests have ended. */
void inf_model_unload(struct inf_model *model);
/* Whether it can't be unloaded before that worker of that queue has done something for it. */
bool inf_model_needs_worker(const struct inf_model *model, uint32_t queue, uint32_t worker);
/* Whether tasks have ended or running requests gone; calls events. */
void inf_model_poll(struct inf_model *model);
/* Before each segment of a run, on the worker's thread: whether its contexts are there. They are, but for a worker that
 * had no memory for them when its turn to prepare came: it tries again here. */
enum et_status inf_model_ensure(struct inf_model *model, struct inf_worker *worker, bool is_all_cores,
	struct et_diag *diag);

/* Memory for a run's values, borrowed until it is given back. Any thread. */
enum et_status inf_model_take_frame(struct inf_model *model, struct inf_frame_entry **ret_frame, struct et_diag *diag);
void inf_model_give_frame(struct inf_model *model, struct inf_frame_entry *frame);

/* One request is admitted, has ended. Any thread. */
void inf_model_job_begun(struct inf_model *model);
void inf_model_job_ended(struct inf_model *model);
/* What a request that ran took. Any thread. */
void inf_model_count(struct inf_model *model, bool is_success, uint64_t queue_ns, uint64_t run_ns, uint64_t cost_ns,
	uint64_t copied_bytes);
/* One run was all on one core, or all on all cores. Any thread. */
void inf_model_count_width(struct inf_model *model, bool is_all_cores, uint64_t run_ns);
/* Whether the next run had better stay on one core even if it is alone. More cores do not always help: a small model is
 * done before they have met, and on a machine that others use too they wait for each other. So both are measured, and
 * the slower way is tried again now and then. Loop thread. */
bool inf_model_prefers_single_core(struct inf_model *model);
/* Whether the next run can be expected to take less time than waking a worker for it: of the last many all but one
 * did, and no instruction of it can take long whatever it is given. */
bool inf_model_is_quick(const struct inf_model *model);
uint64_t inf_model_median_ns(const struct inf_model *model);
/* Memory that it takes while it is loaded. */
struct inf_model_use {
	uint64_t n_file;      /* copies of the program and its data files */
	uint64_t n_prepared;  /* decoded, compiled, packed: once for all */
	uint64_t n_instances; /* on the workers; of those that are not ready for it yet, as much as one that is */
	uint64_t n_frames;    /* what runs borrow: one for each worker, and those beyond that are there now */
	uint64_t n_states;    /* of its Methods, what these share once */
};
struct inf_model_use inf_model_use(const struct inf_model *model);
/* What @program and @plan with @data would take, but for contexts, of which nothing is known before they are made. */
struct inf_model_use inf_model_foresee(const struct inf_queues *queues, const struct et_program *program,
	const struct et_plan *plan, const struct inf_data_ids *data);
/* All of it together; UINT64_MAX: more than can be counted. */
uint64_t inf_model_total(const struct inf_model_use *use);
uint64_t inf_model_memory(const struct inf_model *model);

#endif
