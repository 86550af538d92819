/* SPDX-License-Identifier: BSD-3-Clause */
/* The runtime's side of delegates: how a backend runs the parts of a program that were compiled for it.
 *
 * Three levels, like the runtime's own:
 *   compiled  one payload made ready (packed weights and all): immutable, shared by every client;
 *   lane      what one worker has for this backend: its threads, its workspace;
 *   context   what one running execution of one payload needs, made on a lane, used by one run at a time.
 * A stateless payload's contexts belong to the lane; a stateful one's belong to the client's Method.
 *
 * A delegate itself has another table, that of delegates/inferd-delegate.h, whether it is compiled in or a plug-in: what is
 * promised to vendors must not change, what the runtime wants may. Two adapters are this table's only implementations:
 * delegates/direct calls a delegate in this process, delegates/plugin one in a process of its own. Structs begin with
 * their size. A function pointer that may be NULL says so. */
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

/* One device that a backend can use; becomes one queue (kind and number). */
struct et_device {
	enum et_queue_kind kind;
	char name[64];
	uint64_t memory_bytes;  /* 0 = the machine's */
	uint32_t max_in_flight; /* runs that the device wants queued at once */
	uint32_t n_threads;     /* lanes for the CPU are made with a width; others ignore it */
};

struct et_backend;        /* the delegate's own, one a process */
struct et_worker_threads; /* one worker's */
struct et_model;          /* one payload's */
struct et_instance;       /* one running execution's */

/* What somebody wants for one model from one backend, in words that the backend knows. */
struct et_option {
	const char *backend; /* its name: "openvino" */
	const char *key, *value;
};

/* What compile is given. All of it lives as long as the Program, which outlives the compiled. */
struct et_payload {
	const struct et_program *program; /* for et_program_find_named_data */
	const uint8_t *bytes;             /* followed by ET_SOURCE_PADDING readable bytes */
	size_t n_bytes;
	const struct et_compile_spec *specs;
	uint32_t n_specs;
	const char *method;           /* its name, for messages */
	uint32_t n_args;              /* EValues that each call passes, inputs before outputs */
	const struct et_store *store; /* for what is made of the Program; NULL: nothing is kept */
	const struct et_option
		*options; /* for this backend; they live as long as the compiled, or until probe returns */
	uint32_t n_options;
	uint64_t tenant; /* the Program's, see et_source */
};

/* What compile found out. */
struct et_model_info {
	uint32_t n_inputs; /* the first n_inputs arguments are read, the others written */
	uint32_t n_outputs;
	bool is_stateful;        /* a context remembers something between runs */
	bool drops_payload;      /* the payload's bytes are not needed any more */
	uint32_t device;         /* index of the device (queue) that runs it */
	size_t n_bytes;          /* memory that it keeps, shared by all contexts */
	size_t instance_bytes;   /* estimate of a context's memory */
	bool has_free_instances; /* a context may be used on any lane of its device, by one run at a time */
};

enum et_readiness {
	ET_READINESS_NO,        /* never here */
	ET_READINESS_RECOMPILE, /* it will work, but is to be compiled anew */
	ET_READINESS_READY,
};

/* Called once when an asynchronous run ended, from any thread. */
struct et_completion {
	void *self;
	void (*done)(void *self, enum et_status status, const char *reason);
	bool will_wait; /* whoever enqueues calls wait afterwards, if there is one, and does nothing else before */
};

struct et_delegate_ops {
	const char *id;   /* as in the program: "XnnpackBackend" */
	const char *name; /* as in the configuration: "xnnpack" */

	void (*close)(struct et_backend *backend);
	uint32_t (*n_devices)(const struct et_backend *backend);
	void (*device)(const struct et_backend *backend, uint32_t index, struct et_device *ret_device);

	/* Payload to immutable code. ET_E_NOT_SUPPORTED with the operator's name in @diag if part of it
	 * can't be run. Any thread, those of several Programs at a time. */
	enum et_status (*compile)(struct et_backend *backend, const struct et_payload *payload,
		struct et_model **ret_model, struct et_model_info *ret_info, struct et_diag *diag);
	void (*model_free)(struct et_model *model);

	/* A worker's threads and workspace, @n_threads wide, the calling thread included. Made, used and freed
	 * on that worker's thread; freed after all contexts that were made on it. */
	enum et_status (*threads_new)(struct et_backend *backend, uint32_t device, uint32_t n_threads,
		struct et_worker_threads **ret_threads, struct et_diag *diag);
	void (*threads_free)(struct et_worker_threads *threads);
	/* The compute table over the lane's threads for portable kernels; may be NULL, may return NULL. */
	const struct et_compute *(*threads_compute)(struct et_worker_threads *threads);

	/* On the lane's thread. */
	enum et_status (*instance_new)(struct et_model *model, struct et_worker_threads *threads,
		struct et_instance **ret_instance, struct et_diag *diag);
	void (*instance_free)(struct et_instance *instance);
	/* Take now whatever memory runs of the largest sizes need, so that none of them has to: for a context all of whose
	 * arguments have fixed sizes, or whose instance_bytes are few. What fails is left for a run to say. On the lane's
	 * thread. May be NULL. */
	void (*instance_warm)(struct et_instance *instance);
	/* Forget what a stateful context remembers. May be NULL for a backend without state. */
	enum et_status (*instance_reset)(struct et_instance *instance);

	/* Run. @args: n_inputs to read and n_outputs to write, the latter to be resized with et_tensor_resize.
	 * Tensors' memory is readable 16 bytes past its end. Returns ET_OK with the outputs written (@completion
	 * never called), or ET_PENDING: @completion will be called exactly once; or
	 * a failure with @diag (never called). On the lane's thread. */
	enum et_status (*enqueue)(struct et_instance *instance, struct et_evalue *const *args,
		const struct et_completion *completion, struct et_diag *diag);
	/* Ask a pending run to end early; its completion still comes. Any thread. May be NULL. */
	void (*cancel)(struct et_instance *instance);

	/* Make memory known in which tensors will lie (a client's region, the activations of a program): [bytes, bytes +
	 * n_bytes), the start of file @fd, which both stay until it is released. Runs over it then copy nothing. May be
	 * NULL: the delegate reaches all memory. Any thread. */
	enum et_status (*import_memory)(struct et_backend *backend, int fd, void *bytes, size_t n_bytes,
		void **ret_handle);
	/* No run uses it any more. */
	void (*release_memory)(struct et_backend *backend, void *handle);

	/* As enqueue, for one chosen run whose times somebody wants: may take any time around the work itself, never
	 * ET_PENDING. Calls trace->begin and trace->end for @instruction around the work, then trace->part for each of
	 * its operators. On the lane's thread. May be NULL: the call is then timed as a whole. */
	enum et_status (*profile)(struct et_instance *instance, struct et_evalue *const *args,
		const struct et_trace *trace, uint32_t instruction, struct et_diag *diag);

	/* Put what compile made (for the Program, not only for this payload) into the payload's store, unless it came
	 * from there. May be slow; nobody waits for it. Any thread, also while it is used. May be NULL. */
	enum et_status (*keep)(struct et_model *model, struct et_diag *diag);

	/* Whether compile could work, from a look at the payload's header; nothing is kept. With ET_OK *ret_readiness
	 * says so, and @diag why it is not READY. Any thread, several at a time. May be NULL: compile tells. */
	enum et_status (*probe)(struct et_backend *backend, const struct et_payload *payload,
		enum et_readiness *ret_readiness, struct et_diag *diag);
	/* ET_OK; or ET_E_BACKEND_CRASHED and why: it was given up, and nothing runs before restart. Any thread. May be
	 * NULL: it does not fail as a whole. */
	enum et_status (*health)(struct et_backend *backend, struct et_diag *diag);
	/* End what runs, forget what went wrong, begin anew with the next call. ET_E_NOT_SUPPORTED and why it can't. Any
	 * thread. May be NULL: there is nothing to restart. */
	enum et_status (*restart)(struct et_backend *backend, struct et_diag *diag);

	/* After ET_PENDING with a completion that will_wait: until it has been called, perhaps on this thread. Waking the
	 * one thread that needs the result is what a delegate in another process saves so. At @cancel_ns on the
	 * monotonic clock (0: never) the run is asked to end early. May be NULL: nothing waits then. */
	void (*wait)(struct et_instance *instance, uint64_t cancel_ns);

	/* Bytes that the last run of @context copied, because they did not lie where the delegate can use them. May be
	 * NULL: none ever. */
	uint64_t (*copied_bytes)(const struct et_instance *instance);

	/* Whether argument @arg of @compiled, a tensor of @n_dims dimensions in row-major order, would better lie in another:
	 * what it does now is to transpose it. Then true, and the dimensions from outermost to innermost. */
	bool (*find_order)(const struct et_model *model, uint32_t arg, uint8_t *ret_order, uint32_t n_dims);
	/* From now on these do. Once at most, before there is a context, on compile's thread. Both may be NULL. */
	enum et_status (*take_orders)(struct et_model *model, const uint32_t *args, uint32_t n_args,
		struct et_diag *diag);

	/* Memory that the contexts made with @lane take now, with what they share. May be NULL: none worth mentioning. Any
	 * thread. */
	uint64_t (*threads_bytes)(const struct et_worker_threads *threads);
};

#endif
