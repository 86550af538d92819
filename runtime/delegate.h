/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's side of delegates: how a backend runs the parts of a program that were exported for it.
 *
 *   model           one payload made ready to run (with packed weights): immutable, shared by all clients
 *   worker threads  what one worker has for this backend: its threads and its workspace
 *   instance        what runs of one model need, made on worker threads, used by one run at a time
 *
 * The instances of a stateless model belong to the worker threads; an instance of a stateful model belongs to a
 * client's Method.
 *
 * Delegates themselves have another table, that of delegates/inferd-delegate.h, built-in or plug-in: what is promised
 * to vendors must not change, and what the runtime wants may. This table has two implementations: delegates/direct
 * calls a delegate in this process, delegates/plugin/proxy a delegate in a process of its own. et_direct_open and
 * et_plugin_open make them. A function pointer that may be NULL says so. */
#ifndef RUNTIME_DELEGATE_H
#define RUNTIME_DELEGATE_H

#include "runtime/base/alloc.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/compute.h"
#include "runtime/program/program.h"
#include "runtime/tensor.h"
#include "runtime/trace.h"

enum et_queue_kind {
	ET_QUEUE_CPU,
	ET_QUEUE_GPU,
	ET_QUEUE_NPU,
};
const char *et_queue_kind_name(enum et_queue_kind kind); /* "cpu", "gpu", "npu" */

/* One device of a backend. It becomes a queue (kind and number); all CPUs share one queue. */
struct et_device {
	enum et_queue_kind kind;
	char name[64];
	uint64_t memory_bytes;          /* the device's own memory; 0: it uses the machine's */
	uint32_t max_in_flight;         /* runs that the device wants queued at once */
	bool takes_turns;               /* between the pieces of a run, runs of a higher priority go first */
	uint32_t n_threads;             /* a CPU: the largest n_threads for threads_new; 0: not said */
	char driver[64], features[128]; /* for people, printable ASCII; empty: not said */
};

/* Defined by the implementation of the table. */
struct et_backend;        /* one delegate */
struct et_worker_threads; /* one worker */
struct et_model;          /* one payload */
struct et_instance;       /* one run at a time */

/* An option for one model and one backend, from the configuration. The backend knows the key. */
struct et_option {
	const char *backend; /* the backend's name: "openvino" */
	const char *key, *value;
};

/* The payload that compile and probe are given. All of it lives as long as the Program, which outlives the model. */
struct et_payload {
	const struct et_program *program; /* for et_program_find_named_data */
	const uint8_t *bytes;             /* followed by ET_SOURCE_PADDING readable bytes */
	size_t n_bytes;
	const struct et_compile_spec *specs;
	uint32_t n_specs;
	const char *method;              /* the Method's name, for messages */
	uint32_t n_args;                 /* EValues that each call passes, inputs before outputs */
	const struct et_store *store;    /* for what is made of the Program; NULL: nothing is kept */
	const struct et_option *options; /* for this backend; they live as long as the model, or until probe returns */
	uint32_t n_options;
	uint64_t tenant;                            /* the Program's, see et_source */
	const struct et_client_files *client_files; /* likewise */
};

/* What compile found out about the model. */
struct et_model_info {
	uint32_t n_inputs; /* the first n_inputs arguments are read, the others written */
	uint32_t n_outputs;
	bool is_stateful;        /* an instance has a state that lasts from run to run */
	bool drops_payload;      /* the payload's bytes are not needed any more */
	uint32_t device;         /* index of the device (queue) that runs the model */
	size_t n_bytes;          /* memory that the model takes, shared by its instances */
	size_t instance_bytes;   /* estimate of the memory that each instance takes in addition */
	size_t shared_bytes;     /* of that, what all instances on a worker's threads share: the largest counts */
	bool has_free_instances; /* an instance may run on any worker of its device, one run at a time */
	/* An instance belongs to a frame (or, if stateful, to a Method), not to a worker: it is made without threads
	 * and told before each call which threads to use (use_threads). */
	bool is_per_run;
	bool is_repeatable;        /* a stateful instance whose run was cut short has the state of before that run */
	size_t state_bytes;        /* memory of each stateful instance's state */
	size_t shared_state_bytes; /* the part of it that instance_with shares; 0: it can't share */
};

enum et_readiness {
	ET_READINESS_NO,        /* compile can't work on this machine */
	ET_READINESS_RECOMPILE, /* compile will work, but the delegate has to compile the payload anew */
	ET_READINESS_READY,
};

/* How an asynchronous run reports its end. */
struct et_completion {
	void *self;
	void (*done)(void *self, enum et_status status, const char *reason); /* once, from any thread */
	bool will_wait;   /* the caller of enqueue calls wait next, if the table has it, and does nothing else before */
	uint8_t priority; /* of the request, from 1 on, higher ones first; 0: not said */
};

struct et_delegate_ops {
	const char *id;   /* the delegate id in programs: "XnnpackBackend" */
	const char *name; /* the name in the configuration: "xnnpack" */
	/* Another process computes the models: what it writes is not in our hands, and it may leave an output
	 * unwritten. */
	bool is_elsewhere;
	/* The backend runs clients' programs as a whole (et_source.client_files). No other program can name it. */
	bool runs_programs;

	/* Free the backend; all that was made with it has been freed before. Loop thread. */
	void (*close)(struct et_backend *backend);
	uint32_t (*n_devices)(const struct et_backend *backend);
	/* Describe device @index, below n_devices. */
	void (*device)(const struct et_backend *backend, uint32_t index, struct et_device *ret_device);

	/* Make a payload ready to run. The caller frees *ret_model with model_free, after all its instances.
	 * ET_E_NOT_SUPPORTED with the operator's name in @diag: a part of the payload can't be run. Any thread;
	 * payloads of several Programs at a time. */
	enum et_status (*compile)(struct et_backend *backend, const struct et_payload *payload,
		struct et_model **ret_model, struct et_model_info *ret_info, struct et_diag *diag);
	void (*model_free)(struct et_model *model);

	/* Make what one worker has for @device: @n_threads threads, the calling thread included, and their
	 * workspace. Made, used and freed on that worker's thread; freed after all instances on it. */
	enum et_status (*threads_new)(struct et_backend *backend, uint32_t device, uint32_t n_threads,
		struct et_worker_threads **ret_threads, struct et_diag *diag);
	void (*threads_free)(struct et_worker_threads *threads);
	/* The compute table with which portable kernels use these threads; lives as long as @threads. May be NULL,
	 * and may return NULL. */
	const struct et_compute *(*threads_compute)(struct et_worker_threads *threads);

	/* Make an instance of @model on @threads. On the worker's thread, as instance_free. */
	enum et_status (*instance_new)(struct et_model *model, struct et_worker_threads *threads,
		struct et_instance **ret_instance, struct et_diag *diag);
	void (*instance_free)(struct et_instance *instance);
	/* Allocate now what runs with the largest sizes need, so that no run has to: for an instance whose
	 * arguments all have fixed sizes, or whose instance_bytes are few. On the worker's thread. May be NULL. */
	enum et_status (*instance_warm)(struct et_instance *instance, struct et_diag *diag);
	/* Reset the state of a stateful instance to that of a new one. May be NULL for a backend without state. */
	enum et_status (*instance_reset)(struct et_instance *instance);

	/* As instance_new, for an instance of a model with shared_state_bytes that shares state with @other, an
	 * instance of such a model of the same Program, which is freed later. Any thread. May be NULL: nothing can be
	 * shared. */
	enum et_status (*instance_with)(struct et_model *model, struct et_instance *other,
		struct et_instance **ret_instance, struct et_diag *diag);
	/* The threads for the next call of enqueue or profile. For models with is_per_run. Any thread. */
	void (*use_threads)(struct et_instance *instance, struct et_worker_threads *threads);
	/* The run that answered ET_UNFINISHED does not continue. Any thread. Needed if enqueue gives that answer. */
	void (*abandon)(struct et_instance *instance);

	/* Run. @args: n_inputs to read, then n_outputs to write, which are resized with et_tensor_resize. 16 bytes
	 * behind a tensor's end are readable. Answers: ET_OK with the outputs written; ET_PENDING: @completion will
	 * be called, exactly once; or a failure with @diag. @completion is not called unless ET_PENDING. Either way
	 * ET_UNFINISHED says: call enqueue again with the same arguments, or abandon. On the worker's thread. */
	enum et_status (*enqueue)(struct et_instance *instance, struct et_evalue *const *args,
		const struct et_completion *completion, struct et_diag *diag);
	/* Ask a pending run to end early; its completion still comes. Any thread. May be NULL. */
	void (*cancel)(struct et_instance *instance);
	/* Others wait for the cores that the pending run uses: let it get less of them until it ends. Any thread. May
	 * be NULL: it can't. */
	void (*give_way)(struct et_instance *instance);

	/* Make memory known in which tensors will lie (a client's region, the activations of a program), so that
	 * runs copy nothing: [bytes, bytes + n_bytes), which is the start of the file @fd. Memory and descriptor
	 * stay the caller's, and must stay until release_memory(*ret_handle). Any thread. Both may be NULL: the
	 * delegate reaches all memory. */
	enum et_status (*import_memory)(struct et_backend *backend, int fd, void *bytes, size_t n_bytes,
		void **ret_handle);
	/* No run uses the memory any more. Any thread. */
	void (*release_memory)(struct et_backend *backend, void *handle);

	/* As enqueue, for a run that is profiled: it may take any time around the work itself, and never answers
	 * ET_PENDING. It calls trace->begin and trace->end for @instruction around the work, then trace->part for
	 * each operator. On the worker's thread. May be NULL: the call is then timed as a whole. */
	enum et_status (*profile)(struct et_instance *instance, struct et_evalue *const *args,
		const struct et_trace *trace, uint32_t instruction, struct et_diag *diag);

	/* Put what compile made for the Program (not only for this payload) into the payload's store, unless it
	 * came from there. May be slow; no request waits for it. Any thread, also while the model runs. May be
	 * NULL. */
	enum et_status (*keep)(struct et_model *model, struct et_diag *diag);

	/* Find out from the payload's header whether compile could work; nothing is kept. With ET_OK *ret_readiness
	 * is the answer, and @diag says why it is not READY. Any thread, several at a time. May be NULL: only
	 * compile can tell. */
	enum et_status (*probe)(struct et_backend *backend, const struct et_payload *payload,
		enum et_readiness *ret_readiness, struct et_diag *diag);
	/* ET_OK; or ET_E_BACKEND_CRASHED with the reason in @diag: the backend was given up, and nothing runs on it
	 * before restart. Any thread. May be NULL: the backend can't fail as a whole. */
	enum et_status (*health)(struct et_backend *backend, struct et_diag *diag);
	/* End what runs, forget the crashes, and begin anew with the next call. ET_E_NOT_SUPPORTED with the reason:
	 * it can't be restarted. Any thread. May be NULL: there is nothing to restart. */
	enum et_status (*restart)(struct et_backend *backend, struct et_diag *diag);
	/* Wait until all that the last restart was to end has ended. Any thread. Needed with restart. */
	void (*await_restart)(struct et_backend *backend);

	/* After ET_PENDING, if completion.will_wait: wait until the completion has been called, perhaps on this
	 * thread. A delegate in another process saves a wake-up so: the thread that needs the result receives it.
	 * At @cancel_ns on the monotonic clock (0: never) the run is asked to end early. May be NULL: then the
	 * caller does not wait here. */
	void (*wait)(struct et_instance *instance, uint64_t cancel_ns);

	/* Bytes that the last run of @instance copied, because they did not lie where the delegate can use them. May be
	 * NULL: the delegate never copies. */
	uint64_t (*copied_bytes)(const struct et_instance *instance);
	/* The time that the device worked on the last run of @instance; 0: not known. May be NULL. */
	uint64_t (*busy_ns)(const struct et_instance *instance);

	/* Tell the dim order that @model prefers for argument @arg, a tensor of @n_dims dimensions in row-major
	 * order, which the model has to transpose now. True with the dimensions from outermost to innermost in
	 * @ret_order; false: row-major order is fine. May be NULL, together with adopt_orders. */
	bool (*preferred_order)(const struct et_model *model, uint32_t arg, uint8_t *ret_order, uint32_t n_dims);
	/* The @n_args arguments come from now on in the order that preferred_order told. Called at most once, on
	 * compile's thread, before the model has an instance. */
	enum et_status (*adopt_orders)(struct et_model *model, const uint32_t *args, uint32_t n_args,
		struct et_diag *diag);

	/* The memory that the instances on @threads take now, with what they share. May be NULL: not worth
	 * counting. Any thread. */
	uint64_t (*threads_bytes)(const struct et_worker_threads *threads);
	/* The instances on all worker threads together take from now on at most @n_bytes, as threads_bytes counts;
	 * UINT64_MAX: any number. They keep what they have. What needs more fails before it is allocated, with
	 * ET_E_DELEGATE_MEMORY_ALLOCATION_FAILED: instance_new, instance_warm, or a run. Any thread. May be NULL:
	 * there is no such limit. */
	void (*limit_memory)(struct et_backend *backend, uint64_t n_bytes);
};

#endif
