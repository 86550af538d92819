/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-delegate.h: how a vendor's engine becomes a backend of inferd. Version 1.1 of the interface.
 *
 * A plug-in is a shared object with one exported symbol:
 *
 *     const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor);
 *
 * which returns a constant table, or NULL if it can't work with that host. inferd loads it into a process of its
 * own (inferd-delegate-host, one for each plug-in): what the engine's library does there, be it a crash, a hang, exit()
 * or a line on stdout, ends at worst the requests that it was running; inferd starts the process again. In that
 * process there is no network, no way to start programs, and the file system is read-only but for the cache folder;
 * device nodes below /dev can be used as far as the user may. Put the file where inferd.conf says:
 *
 *     [backend acme]
 *     path = /usr/lib/inferd/acme.so
 *
 * A program that was exported for the delegate id "AcmeBackend" carries, for every part that the engine is to run, a
 * payload: bytes that only the engine understands, and compile specs: keys with values, from the exporter.
 *
 *     plug-in   open ... close                one per process
 *     model     init ... destroy              one payload made ready; many at once
 *     lane      threads_new ... threads_free        an engine for the CPU only: the threads and memory of one worker
 *     instance  instance_new ... free         what one run at a time needs (a request object, a state)
 *     run       execute, or submit and done
 *
 * The delegates that are part of inferd have the same table, without the entry: inferd calls it in its own process, on
 * the threads that run requests, and nothing is contained. What only such a host offers says so below (a lane, a store, the
 * program's file); everything else is the same, so that an engine can move from one side to the other.
 *
 * Rules for every struct: it begins with struct_size, the size that its maker knows; fields are only ever appended,
 * and who reads one looks at struct_size before he looks at a field that 1.0 did not have. Structs that a function fills
 * in (ret_...) come zeroed, with struct_size set by the caller: it stays, and tells what fits. Reserved fields are 0.
 * Arrays are arrays of pointers, so that their items may grow. A new major version means that this promise was
 * broken; a host serves plug-ins of its own major version and any minor one.
 *
 * Threads: calls come from any thread of the host process, several at a time, but never two at once for the same
 * instance (cancel excepted, which comes while a run of it is under way), and at most max_in_flight runs of a device;
 * a plug-in that wants all calls on one thread, the one that loaded it, sets INFERD_DELEGATE_ONE_THREAD in its table:
 * its runs can then be cancelled only if it has submit. Own threads are welcome. Functions that may be NULL say so.
 *
 * Answers: 0 or an enum inferd_delegate_result. Whoever answers anything else than 0 writes one sentence into the
 * message: what is wrong, with names and numbers ("the context is for SoC 57, this is 43"), no newline. What a function
 * that failed left in its ret_... is not looked at, and nothing of it is freed.
 *
 * Payloads, specs and options come from files and users: check them. Arguments lie in the memory of whoever asked for
 * the run, which he may change at any moment: a value that decides an address is read once, checked, and used from the
 * copy. Inputs can't be written. Outputs are written only within their n_bytes: behind them, up to the end of the page,
 * lies more of the same client's memory, and then a page that can't be written. */
#ifndef INFERD_DELEGATE_H
#define INFERD_DELEGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the maker of *@p knew @field. */
#define INFERD_DELEGATE_HAS(p, field) \
	((size_t)((const char *)(&(p)->field + 1) - (const char *)(p)) <= (p)->struct_size)

enum { INFERD_DELEGATE_MAJOR = 1, INFERD_DELEGATE_MINOR = 1 };

enum inferd_delegate_result {
	INFERD_DELEGATE_OK = 0,
	INFERD_DELEGATE_E_INTERNAL = 1,
	INFERD_DELEGATE_E_INVALID = 2,     /* payload, spec or argument: broken or of a wrong kind */
	INFERD_DELEGATE_E_UNSUPPORTED = 3, /* well-formed, but not possible here */
	INFERD_DELEGATE_E_NOT_FOUND = 4,   /* library, device, index or name */
	INFERD_DELEGATE_E_MEMORY = 5,
	INFERD_DELEGATE_E_DEVICE = 6, /* the device or its driver failed */
	INFERD_DELEGATE_E_CANCELLED = 7,
	INFERD_DELEGATE_E_LOST =
		8, /* the device was reset, or the library can't go on: inferd starts the process again */
	/* since 1.1 */
	INFERD_DELEGATE_E_ARGUMENT = 9, /* of a run: not the type or the sizes that the payload takes */
	INFERD_DELEGATE_E_LIMIT = 10,   /* more than there may be: threads, memory for one instance */
};

enum { INFERD_DELEGATE_TEXT = 256 };
struct inferd_delegate_message {
	uint32_t struct_size;
	uint32_t reserved;
	char text[INFERD_DELEGATE_TEXT]; /* NUL-terminated */
};

/* A name and a value: a compile spec or an option of the configuration. Values are followed by a NUL that does not
 * count, so that text can be used as it is. */
struct inferd_delegate_pair {
	uint32_t struct_size;
	uint32_t reserved;
	const char *key;
	const void *value;
	size_t n_bytes;
};

enum inferd_delegate_host_flags {
	INFERD_DELEGATE_HAS_THREAD_SETS = 1 << 0, /* workers for the CPU, which make lanes */
};

/* What the plug-in may use of the process it lives in. Lives until close returns. */
struct inferd_delegate_host {
	uint32_t struct_size;
	uint16_t major, minor;
	/* A folder of its own that may be written, kept between starts; NULL: there is none. */
	const char *cache_dir;
	const struct inferd_delegate_pair *const *options; /* of its section in inferd.conf */
	uint32_t n_options;
	uint32_t reserved;
	void *self;
	/* One line for the log. @level as in syslog: 3 error, 4 warning, 5 notice, 6 info, 7 debug. Any thread. */
	void (*log)(void *self, int level, const char *text);

	/* --- since 1.1 --- */

	/* Memory that is counted, and refused where the host wants no more of it. NULL: there is none. @alignment is a power of
	 * two up to 4096; @n_bytes of free is what was asked for, @bytes may be NULL. Nobody has to use it. Any thread. */
	void *(*alloc)(void *self, size_t n_bytes, size_t alignment);
	void (*free)(void *self, void *bytes, size_t n_bytes);
	uint32_t flags; /* enum inferd_delegate_host_flags */
	uint32_t reserved2;
};

enum inferd_delegate_kind {
	INFERD_DELEGATE_CPU = 0, /* runs on the queue of the CPU */
	INFERD_DELEGATE_GPU = 1,
	INFERD_DELEGATE_NPU = 2,
};

enum inferd_delegate_device_flags {
	INFERD_DELEGATE_DMA_BUF = 1 << 0,   /* buffer_import takes dma-bufs, buffer_export gives them */
	INFERD_DELEGATE_ZERO_COPY = 1 << 1, /* the device works on the arguments' memory as it is */
	INFERD_DELEGATE_CAN_CANCEL = 1 << 2,
	INFERD_DELEGATE_SIMULATOR = 1 << 3, /* not the real thing: results count, times do not */
};

/* One device; becomes a queue of inferd, e.g. npu0. */
struct inferd_delegate_device {
	uint32_t struct_size;
	uint32_t kind;          /* enum inferd_delegate_kind */
	char name[64];          /* for people: "Ethos-U65-256" */
	char id[64];            /* for programs, stable: "/dev/accel/accel0", a PCI address, a serial number */
	uint64_t memory_bytes;  /* its own; 0: the machine's */
	uint32_t max_in_flight; /* runs it wants at once, at least 1 */
	/* Of arguments' memory, a power of two up to 4096; 0: 64. What lies otherwise is copied to where it fits;
	 * exporters align to 16. */
	uint32_t alignment;
	uint32_t flags;                 /* enum inferd_delegate_device_flags */
	uint32_t vendor_id, product_id; /* PCI or USB, or 0 */
	uint32_t reserved;
	/* since 1.1: of a CPU, how wide a lane can be: processors that may be used; 0: unsaid. Runs on lanes do not count
	 * towards max_in_flight, each lane has one at a time. */
	uint32_t n_threads;
	uint32_t reserved2;
};

/* Bytes one after the other make one thing. */
struct inferd_delegate_piece {
	const void *bytes;
	size_t n_bytes;
};

/* Where to keep what was made of a program, for the next time that it is loaded: found again only for the very same
 * file. Add to @key (up to 255 characters) for what library and machine it was made. What comes out is what went in,
 * whole, or E_NOT_FOUND; but it is a file that somebody may have written to: check what decides an address. The stores of
 * payloads of one program are the same: what was found by one can be released by another. Any thread. */
struct inferd_delegate_store {
	uint32_t struct_size;
	uint32_t reserved;
	void *self;
	/* Fast. At a page's start, read-only, 64 readable bytes behind, until it is released. */
	int (*find)(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes, void **ret_handle);
	void (*release)(void *self, void *handle);
	/* In place of what was kept as @key before; who has found that keeps it. All or nothing. Slow. */
	int (*keep)(void *self, const char *key, const struct inferd_delegate_piece *pieces, size_t n_pieces,
		struct inferd_delegate_message *message);
};

/* Payload and what belongs to it. Everything in it lives until destroy (for probe: until it returns). */
struct inferd_delegate_payload {
	uint32_t struct_size;
	uint32_t n_args; /* arguments of each run: inputs, then outputs; 0: not known yet */
	/* The same bytes twice: mapped read-only at a page's start (or, with @file, where they lie in there), 64 readable bytes
	 * behind; and as a file, for drivers
	 * that want one: @fd, from @fd_offset; -1: there is none. The descriptor stays the host's. */
	const uint8_t *bytes;
	uint64_t n_bytes;
	uint64_t fd_offset;
	int32_t fd;
	uint32_t n_specs;
	const struct inferd_delegate_pair *const *specs;
	const char *method; /* "forward" */
	/* Bytes that the program keeps beside the payload, by name (weights that several payloads share). They live as
	 * long as the payload and begin as that does. Only while init or probe runs, on its thread. OK, or
	 * E_NOT_FOUND. */
	void *self;
	int (*named_data)(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes);
	/* The same number for all payloads of one program that are there at the same time: its methods' payloads may
	 * share what they make of the same named data. Never 0. */
	uint64_t program;

	/* --- since 1.1 --- */

	/* Options of this one model, from the configuration: for it they go before those of the same key that open was
	 * given. They are texts, in no order; no key comes twice. One that the plug-in does not know, or with a value that
	 * makes no sense, is refused by name (E_INVALID): whoever wrote it meant something. */
	const struct inferd_delegate_pair *const *options;
	uint32_t n_options;
	uint32_t reserved;
	/* Only from a host that has it at hand, else NULL: the file that bytes and named data are parts of (but for those that
	 * come from another file), where it lies in memory. It is the same each time, so that a place in it can stand for
	 * its bytes in what is kept. @fd is then -1. */
	const uint8_t *file;
	uint64_t n_file_bytes;
	/* These bytes of @file or of named data are not going to be read soon, their memory may go. May be NULL. Until destroy.
	 * Any thread. */
	void (*drop)(void *self, const uint8_t *bytes, uint64_t n_bytes);
	/* NULL: there is none; what is worth it goes to cache_dir. */
	const struct inferd_delegate_store *store;
	/* The place of a byte of @file or of named data, as a number that can stand for it in what is kept in @store: that
	 * knows the contents of all files, and the same file gives the same number. E_NOT_FOUND: it is none of
	 * these. NULL: only places in @file are known. Any thread, until destroy. */
	int (*place)(void *self, const uint8_t *byte, uint64_t *ret_place);
};

enum inferd_delegate_readiness {
	INFERD_DELEGATE_NO = 0,        /* never here; the message says why */
	INFERD_DELEGATE_RECOMPILE = 1, /* init will work but has to compile anew; the message says why */
	INFERD_DELEGATE_READY = 2,
};

struct inferd_delegate_model;          /* the plug-in's own */
struct inferd_delegate_instance;       /* the plug-in's own */
struct inferd_delegate_buffer;         /* the plug-in's own */
struct inferd_delegate_worker_threads; /* the plug-in's own */

enum inferd_delegate_model_flags {
	INFERD_DELEGATE_STATEFUL = 1 << 0,      /* an instance remembers something between runs; a new one, nothing */
	INFERD_DELEGATE_DROPS_PAYLOAD = 1 << 1, /* bytes, fd, specs, options and named data are not used after init */
	/* since 1.1: instances are made by instance_on_threads, not by instance_new. A host without lanes refuses it,
	 * and every host a model that is STATEFUL, too: what an instance remembers is a client's, and lanes are not. */
	INFERD_DELEGATE_ON_THREADS = 1 << 2,
};

/* What init found out. struct_size is set by the host: fill in only what fits. */
struct inferd_delegate_model_info {
	uint32_t struct_size;
	uint32_t n_inputs, n_outputs;
	uint32_t flags;  /* enum inferd_delegate_model_flags */
	uint32_t device; /* which one runs it */
	uint32_t reserved;
	uint64_t n_bytes;       /* memory that it keeps */
	uint64_t scratch_bytes; /* and each instance on top */
};

enum inferd_delegate_arg_kind {
	INFERD_DELEGATE_NONE = 1, /* the numbers of ExecuTorch's KernelTypes */
	INFERD_DELEGATE_INT = 2,
	INFERD_DELEGATE_BOOL = 3,
	INFERD_DELEGATE_DOUBLE = 4,
	INFERD_DELEGATE_TENSOR = 5,
};

enum { INFERD_DELEGATE_MAX_DIMS = 16 };

enum inferd_delegate_arg_flags {
	INFERD_DELEGATE_FIXED_SIZES = 1
				      << 0, /* since 1.1: they are the same in each run; an output's can't be changed */
};

/* One argument of a run. */
struct inferd_delegate_arg {
	uint32_t struct_size;
	uint8_t kind; /* enum inferd_delegate_arg_kind */
	uint8_t type; /* a tensor's ScalarType: 0 u8, 1 i8, 2 i16, 3 i32, 4 i64, 5 f16, 6 f32, 7 f64, 11 bool, 15 bf16,
	                    * 27 u16, 28 u32, 29 u64 */
	uint8_t n_dims;
	uint8_t is_output;
	/* An output comes with those that the program has for it, and they may be changed to what came out: its rank not,
	 * and n_bytes limits them. Dimension 0 first, whatever dim_order says. */
	int32_t sizes[INFERD_DELEGATE_MAX_DIMS];
	uint8_t dim_order[INFERD_DELEGATE_MAX_DIMS]; /* dimensions from outermost to innermost; memory is dense */
	/* Input: read only, 64 readable bytes behind; 16 from a host that HAS_LANES. */
	void *data;
	uint64_t n_bytes; /* input: of the tensor; output: room */
	int64_t i;        /* INT, BOOL */
	double d;         /* DOUBLE */
	/* Where data lies besides: in a memory file (or -1) at an offset, and, if the plug-in has imported that, in a
	 * buffer (or NULL) of its own at another. */
	int32_t fd;
	uint32_t flags; /* enum inferd_delegate_arg_flags */
	uint64_t fd_offset;
	struct inferd_delegate_buffer *buffer;
	uint64_t buffer_offset;
};

enum inferd_delegate_run_flags {
	INFERD_DELEGATE_PROFILE = 1 << 0, /* somebody wants to know how long each part takes */
};

/* One run. Lives until its end. */
struct inferd_delegate_run {
	uint32_t struct_size;
	uint32_t flags; /* enum inferd_delegate_run_flags */
	uint32_t n_args;
	uint32_t reserved;
	struct inferd_delegate_arg *const *args; /* inputs, then outputs */
	/* With PROFILE: a part of the work took so long; in the order in which they ran, before the run's end, from any
	 * thread. @name is read at once. */
	void *self;
	void (*event)(void *self, const char *name, uint64_t ns);

	/* Since 1.1. With PROFILE, from a plug-in with INFERD_DELEGATE_TELLS_WORK: the work itself begins, and has ended; what
	 * lies before and behind is preparation for being measured, which does not count. Once each, on the thread of
	 * execute, unless the run fails. May be NULL: nobody wants to know. */
	void (*began)(void *self);
	void (*ended)(void *self);
};

enum inferd_delegate_memory_kind {
	INFERD_DELEGATE_MEMFD = 0, /* the machine's memory, in a file */
	/* Some device's, as a dma-buf. While runs use it inferd keeps the processor's access to it begun
	 * (DMA_BUF_IOCTL_SYNC). */
	INFERD_DELEGATE_DMABUF = 1,
};

/* Memory to be made known to a device: whole pages. */
struct inferd_delegate_memory {
	uint32_t struct_size;
	uint32_t kind; /* enum inferd_delegate_memory_kind */
	int32_t fd;
	uint32_t is_written; /* else it can't be */
	uint64_t fd_offset, n_bytes;
	void *data; /* the same, mapped; NULL: it can't be */
};

/* What submit is given to report the end. */
struct inferd_delegate_completion {
	uint32_t struct_size;
	uint32_t reserved;
	void *self;
	/* Exactly once for each submit that answered 0, from any thread, also before submit has returned. @text: why not,
	 * or NULL. Before done returns the next run of the same instance may come, on another thread. */
	void (*done)(void *self, int result, const char *text);
};

struct inferd_delegate_stats {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t n_runs;
	uint64_t busy_ns;      /* of the device */
	uint64_t memory_bytes; /* of the device, in use */
};

/* An operator of the plug-in's own, for programs that call it by name outside any payload. */
struct inferd_delegate_kernel {
	uint32_t struct_size;
	uint32_t reserved;
	const char *name; /* "acme::swish.out" */
	/* A letter an argument, '>' before the outputs: T tensor, t tensor or None, I integer, i integer or None, D
	 * floating point, d the same or None, B boolean, b the same or None, S any number. "TD>T" */
	const char *signature;
	/* @self: from open. Arguments in the signature's order. Any thread, several at a time. */
	int (*run)(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
		struct inferd_delegate_message *message);
};

enum inferd_delegate_flags {
	INFERD_DELEGATE_ONE_THREAD = 1 << 0, /* all calls on the thread that called the entry */
	INFERD_DELEGATE_TELLS_WORK = 1 << 1, /* since 1.1: execute tells where the work of a profiled run is */
};

struct inferd_delegate {
	uint32_t struct_size;
	uint16_t major, minor; /* INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR */
	uint32_t flags;        /* enum inferd_delegate_flags */
	uint32_t n_kernels;
	const char *id;      /* as in the program: "AcmeBackend" */
	const char *name;    /* as in the configuration: "acme" */
	const char *version; /* of the plug-in, for people; NULL: unsaid */
	const struct inferd_delegate_kernel *const *kernels;

	/* --- all of these must be there ------------------------------------------------------------------ */

	/* Find the vendor's library and the devices. E_NOT_FOUND with the reason: this backend is not available here. Once,
	 * before everything else; close follows only if it answered 0. */
	int (*open)(const struct inferd_delegate_host *host, void **ret_self, struct inferd_delegate_message *message);
	void (*close)(void *self);
	/* Device @index, 0 first; E_NOT_FOUND after the last. The same answers until close. */
	int (*devices)(void *self, uint32_t index, struct inferd_delegate_device *ret_device);
	/* Whether init could work, from a look at the payload's header; nothing is kept. OK whatever the answer is; for any
	 * but READY the message says why. */
	int (*probe)(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
		struct inferd_delegate_message *message);
	int (*init)(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
		struct inferd_delegate_model_info *ret_info, struct inferd_delegate_message *message);
	/* Run and wait. @instance is NULL if there is no instance_new; the host then runs one at a time of a model. */
	int (*execute)(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
		const struct inferd_delegate_run *run, struct inferd_delegate_message *message);
	/* All its instances are gone. */
	void (*destroy)(struct inferd_delegate_model *model);

	/* --- any of these may be NULL -------------------------------------------------------------------- */

	int (*instance_new)(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
		struct inferd_delegate_message *message); /* together with instance_free */
	void (*instance_free)(struct inferd_delegate_instance *instance);
	/* Forget the state. Needed if any model is STATEFUL. */
	int (*instance_reset)(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message);
	/* Start a run and return; used in place of execute, which is there nevertheless. Run and completion live until done
	 * is called. An answer other than 0: it was not started, and done is not called. */
	int (*submit)(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
		const struct inferd_delegate_run *run, const struct inferd_delegate_completion *completion,
		struct inferd_delegate_message *message);
	/* Ask the run of @instance (or @model, where there are none) to end early; its done, or execute's return, still
	 * comes. Called once at most for a run, from another thread: for one that was submitted after submit has
	 * returned; for execute at any time between its call and its return, so it is to be remembered if the engine has
	 * not begun. May come too late: then nothing happens; the next run begins when it has returned. A host that
	 * HAS_LANES may hold locks meanwhile: there done is not called from within. A plug-in that
	 * wants ONE_THREAD only hears it if it has submit. */
	void (*cancel)(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance);

	/* Memory made known to a device, or made there. Descriptors stay the caller's; that of buffer_export is a new
	 * one, of a dma-buf. The host imports what runs use, once, and hands the buffer over with each argument that lies
	 * in it; where the answer is E_UNSUPPORTED, arguments come without. It frees a buffer when the client lets its
	 * memory go, or others are used more, and never while a run uses it. */
	int (*buffer_import)(void *self, uint32_t device, const struct inferd_delegate_memory *memory,
		struct inferd_delegate_buffer **ret_buffer);
	int (*buffer_alloc)(void *self, uint32_t device, uint64_t n_bytes, struct inferd_delegate_buffer **ret_buffer);
	int (*buffer_map)(struct inferd_delegate_buffer *buffer, void **ret_bytes);
	void (*buffer_unmap)(struct inferd_delegate_buffer *buffer);
	int (*buffer_export)(struct inferd_delegate_buffer *buffer, int *ret_fd);
	void (*buffer_free)(struct inferd_delegate_buffer *buffer);

	int (*stats)(void *self, uint32_t device, struct inferd_delegate_stats *ret_stats);

	/* --- since 1.1, each of them may be NULL; see INFERD_DELEGATE_HAS ----------------------------------- */

	/* An engine for the CPU works with the threads of its host's workers rather than against them: a lane is what one
	 * worker has for it, @n_threads wide, the worker's own thread included. A worker may have several, of different
	 * widths, and uses one of them at a time. A lane is made, used and freed on that one thread. E_ARGUMENT, E_LIMIT. All
	 * four together; from a host that HAS_LANES alone. */
	int (*threads_new)(void *self, uint32_t device, uint32_t n_threads,
		struct inferd_delegate_worker_threads **ret_threads, struct inferd_delegate_message *message);
	void (*threads_free)(struct inferd_delegate_worker_threads *threads);
	/* For a model that is ON_LANE: this instance is made, runs and is freed on the thread of @lane, before that is freed. */
	int (*instance_on_threads)(struct inferd_delegate_model *model, struct inferd_delegate_worker_threads *threads,
		struct inferd_delegate_instance **ret_instance, struct inferd_delegate_message *message);
	/* Call @fn for all of [0, n) in pieces of at least @grain, on the lane's threads, and return when all is done: inferd's
	 * own operators use them so between two payloads. @fn does not fail and does not call the plug-in. */
	void (*threads_parallel_for)(struct inferd_delegate_worker_threads *threads,
		void (*fn)(void *arg, size_t begin, size_t end), void *arg, size_t n, size_t grain);

	/* Nothing follows at once, the lane's threads may sleep; until then they may look around for work between one loop
	 * or run and the next. On the lane's thread, between other calls. */
	void (*threads_rest)(struct inferd_delegate_worker_threads *threads);

	/* Put what init made (for the program, not only this payload) into the payload's store, unless it came from there or
	 * there is none. May be slow: nobody waits for it. Any thread, also while the model is used. */
	int (*keep)(struct inferd_delegate_model *model, struct inferd_delegate_message *message);

	/* Take now whatever memory runs of the largest sizes need, so that none of them has to: called for an instance
	 * whose arguments all have fixed sizes, or whose model's scratch_bytes are at most 4 MiB, behind
	 * instance_on_threads and on its thread. What fails is left for a run to say. */
	void (*instance_warm)(struct inferd_delegate_instance *instance);

	/* Programs say how tensors lie between their parts, as a rule dimension 0 first; an engine that wants channels last
	 * transposes what comes and goes, and the next one back. Whether argument @arg of @model, a tensor of @n_dims dimensions,
	 * dimension 0 outermost, would better lie otherwise: then how many dimensions it has, which must be @n_dims, and
	 * ret_dim_order as in inferd_delegate_arg; else 0. Before there is an instance. */
	uint32_t (*preferred_order)(const struct inferd_delegate_model *model, uint32_t arg, uint32_t n_dims,
		uint8_t ret_dim_order[INFERD_DELEGATE_MAX_DIMS]);
	/* From now on these @n_args arguments lie so. Not every preference can be met, and they are independent of each other.
	 * Together with preferred_order; once at most, before there is an instance. E_MEMORY. */
	int (*adopt_orders)(struct inferd_delegate_model *model, const uint32_t *args, uint32_t n_args,
		struct inferd_delegate_message *message);

	/* Memory that the instances on @lane take now, with what they share; what several lanes of one thread have in common
	 * one of them tells. NULL: scratch_bytes for each instance. Any thread. */
	uint64_t (*threads_bytes)(const struct inferd_delegate_worker_threads *threads);
};

#define INFERD_DELEGATE_ENTRY "inferd_delegate_entry"
/* What the plug-in defines; visible whatever the compiler was told about others. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct inferd_delegate *
inferd_delegate_entry(uint32_t host_major, uint32_t host_minor);

#ifdef __cplusplus
}
#endif

#endif
