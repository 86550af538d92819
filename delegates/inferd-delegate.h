/* SPDX-License-Identifier: BSD-3-Clause */
/* inferd-delegate.h: make an engine a backend of inferd. Version 1.2 of the interface.
 *
 * The engine is a vendor's library for an NPU, a GPU or the CPU. A plug-in is a shared object around it that exports
 * one symbol:
 *
 *     const struct inferd_delegate *inferd_delegate_entry(uint32_t host_major, uint32_t host_minor);
 *
 * The entry returns a constant table of functions, or NULL if the plug-in can't work with that host. "Host" below means
 * whoever calls the table: the process inferd-delegate-host, or inferd itself for a built-in delegate.
 *
 * inferd loads each plug-in into a host process of its own. A crash, a hang or exit() of the library ends at worst the
 * requests that were running there; inferd starts the process again. Lines that the library prints go to inferd's log.
 * The process has no network and can't start programs. Its file system is read-only but for the cache folder. Device
 * nodes below /dev work as far as the user's permissions allow. With `isolation = thread` in inferd.conf, inferd loads
 * the plug-in into itself instead: there is no sandbox then, and a crash ends inferd.
 *
 * inferd.conf names the file of the plug-in, and lists its name among the backends:
 *
 *     [server]
 *     backends = acme, xnnpack, portable
 *
 *     [backend acme]
 *     path = /usr/lib/inferd/acme.so
 *
 * A program that was exported for the delegate id "AcmeBackend" carries a payload for every part that the engine is to
 * run. A payload is bytes that only the engine understands, with compile specs: pairs of key and value that the
 * exporter wrote.
 *
 *     plug-in         open ... close                  one for each process
 *     model           init ... destroy                one payload made ready to run; many exist at once
 *     worker threads  threads_new ... threads_free    built-in engines for the CPU: threads and memory of one worker
 *     instance        instance_new ... instance_free  what one run at a time needs: a request object, a state
 *     run             execute, or submit and done
 *
 * Built-in delegates (XNNPACK) have the same table, without the entry. inferd calls it in its own process, on the
 * threads that run requests, and a crash ends inferd. Such a host offers more: worker threads, a store, the program's
 * file; the text below says "built-in only". Everything else is the same, so an engine can move from one side to the
 * other.
 *
 * Structs. Each struct that may grow begins with struct_size: the size of the struct as its maker was compiled. New
 * members are only appended. Before reading a member that 1.0 did not have, check struct_size with
 * INFERD_DELEGATE_HAS. A struct that a function fills in (ret_...) comes zeroed, with struct_size set by the caller:
 * leave struct_size alone, and fill in only what fits. Reserved members are 0. Arrays of structs are arrays of
 * pointers, so that the structs can grow. A new major version breaks these rules. A host accepts plug-ins of its own
 * major version and any minor version.
 *
 * Threads. The host calls from any of its threads, and makes several calls at a time, but never two at once for the
 * same instance. The exception is cancel, which comes while a run of the instance is under way. A device has at most
 * max_in_flight runs at once. A plug-in that needs all calls on one thread sets INFERD_DELEGATE_ONE_THREAD in its
 * table; that thread is the one that called the entry, and its runs can be cancelled only if the plug-in has submit. A
 * plug-in may start threads of its own. Functions that may be NULL say so.
 *
 * Results. Functions return INFERD_DELEGATE_OK (0) or another enum inferd_delegate_result. With any other result than
 * OK, a function that has a message parameter writes one sentence into it: what is wrong, with names and numbers, no
 * newline ("the payload is for SoC 57, this is 43"). After a failure the caller ignores the ret_... values and frees
 * nothing of them.
 *
 * Trust. Payloads, compile specs and options come from files and users: check them. The arguments of a run lie in the
 * memory of the client that asked for the run, and the client can change them at any moment: read a value that decides
 * an address once, into a local, check it, and use the local. Inputs can't be written. Write outputs only within their
 * n_bytes: the rest of the page holds more of the same client's memory, and the page behind it can't be written. */
#ifndef INFERD_DELEGATE_H
#define INFERD_DELEGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether the struct *@p has the member @field: whether its maker was compiled with a version that has it. */
#define INFERD_DELEGATE_HAS(p, field) \
	((size_t)((const char *)(&(p)->field + 1) - (const char *)(p)) <= (p)->struct_size)

enum { INFERD_DELEGATE_MAJOR = 1, INFERD_DELEGATE_MINOR = 2 };

enum inferd_delegate_result {
	INFERD_DELEGATE_OK = 0,
	INFERD_DELEGATE_E_INTERNAL = 1,
	INFERD_DELEGATE_E_INVALID = 2,     /* a payload, spec or option is broken, or of a wrong kind */
	INFERD_DELEGATE_E_UNSUPPORTED = 3, /* well-formed, but not possible here */
	INFERD_DELEGATE_E_NOT_FOUND = 4,   /* no such library, device, index or name */
	INFERD_DELEGATE_E_MEMORY = 5,      /* no memory */
	INFERD_DELEGATE_E_DEVICE = 6,      /* the device or its driver failed */
	INFERD_DELEGATE_E_CANCELLED = 7,   /* the run ended early, as cancel asked */
	/* The device was reset, or the library can't go on. inferd ends the process and starts it again. */
	INFERD_DELEGATE_E_LOST = 8,

	/* --- since 1.1 --- */

	INFERD_DELEGATE_E_ARGUMENT = 9, /* an argument of a run has a type or sizes that the payload does not take */
	INFERD_DELEGATE_E_LIMIT = 10,   /* more than a limit allows: threads, memory for one instance */

	/* --- since 1.2 --- */

	/* Not a failure: the time slice of the run is over, and the run is not. The host calls execute again with
	 * the same arguments and INFERD_DELEGATE_CONTINUES, or calls abandon. Only if the run has a slice_ns. */
	INFERD_DELEGATE_UNFINISHED = 11,
	/* Not a failure: init needs code for the device that has to be compiled first, and has noted in cache_dir what
	 * that is. The host calls build in another process, then init again. Only with
	 * INFERD_DELEGATE_BUILDS_APART. */
	INFERD_DELEGATE_TO_BUILD = 12,
};

enum { INFERD_DELEGATE_TEXT = 256 };
struct inferd_delegate_message {
	uint32_t struct_size;
	uint32_t reserved;
	char text[INFERD_DELEGATE_TEXT]; /* NUL-terminated */
};

/* A key and a value: a compile spec, or an option of the configuration. A NUL follows the value and is not counted in
 * n_bytes, so a text can be used as it is. */
struct inferd_delegate_pair {
	uint32_t struct_size;
	uint32_t reserved;
	const char *key;
	const void *value;
	size_t n_bytes;
};

enum inferd_delegate_host_flags {
	/* Built-in only: inferd's workers call threads_new, and instances may belong to worker threads. */
	INFERD_DELEGATE_HAS_WORKER_THREADS = 1 << 0,

	/* --- since 1.2 --- */

	/* Built-in only: worker threads, and instances on them, are made, used and freed on any thread, one call at a
	 * time. So what belongs to worker threads can't be found by the calling thread. */
	INFERD_DELEGATE_THREADS_MOVE = 1 << 1,
	/* Plug-ins only: a plug-in with build compiles nothing for its device but there. A compiler may crash, hang, or
	 * want to start programs, and here clients' data lie. */
	INFERD_DELEGATE_BUILDS_APART = 1 << 2,
};

/* What the host offers the plug-in. Lives until close returns. */
struct inferd_delegate_host {
	uint32_t struct_size;
	uint16_t major, minor;
	/* A folder for this plug-in alone, which it may write to, and which is kept between starts; NULL: there is
	 * none. */
	const char *cache_dir;
	const struct inferd_delegate_pair *const *options; /* from the plug-in's section in inferd.conf */
	uint32_t n_options;
	uint32_t reserved;
	void *self; /* pass it to the functions below */
	/* Write one line to inferd's log. @level as in syslog: 3 error, 4 warning, 5 notice, 6 info, 7 debug. Any
	 * thread. */
	void (*log)(void *self, int level, const char *text);

	/* --- since 1.1 --- */

	/* Allocate memory that the host counts; NULL when there is none, or the host refuses. @alignment is a power of
	 * two up to 4096. free takes the same @n_bytes as alloc did; its @bytes may be NULL. Using them is optional.
	 * Any thread. */
	void *(*alloc)(void *self, size_t n_bytes, size_t alignment);
	void (*free)(void *self, void *bytes, size_t n_bytes);
	uint32_t flags; /* enum inferd_delegate_host_flags */
	uint32_t reserved2;
};

enum inferd_delegate_kind {
	INFERD_DELEGATE_CPU = 0, /* its runs take turns with inferd's own work on the queue of the CPU */
	INFERD_DELEGATE_GPU = 1,
	INFERD_DELEGATE_NPU = 2,
};

enum inferd_delegate_device_flags {
	INFERD_DELEGATE_DMA_BUF = 1 << 0,    /* buffer_import takes dma-bufs, buffer_export gives them */
	INFERD_DELEGATE_ZERO_COPY = 1 << 1,  /* the device works on the arguments where they lie, without a copy */
	INFERD_DELEGATE_CAN_CANCEL = 1 << 2, /* a run on the device can end early */
	INFERD_DELEGATE_SIMULATOR = 1 << 3,  /* a simulator: its results count, its times do not */

	/* --- since 1.2 --- */

	/* A run goes in short pieces, and between them runs of a higher priority go first (`priority` of a run). So the
	 * host keeps the last of max_in_flight, if there are two or more, for a run of a higher priority than those
	 * that are under way, which need not end before it. */
	INFERD_DELEGATE_TAKES_TURNS = 1 << 4,
};

/* One device. Each GPU and NPU becomes a queue of inferd, for example npu0; all CPUs share the queue cpu. */
struct inferd_delegate_device {
	uint32_t struct_size;
	uint32_t kind;          /* enum inferd_delegate_kind */
	char name[64];          /* for people: "Ethos-U65-256" */
	char id[64];            /* for programs, stable: "/dev/accel/accel0", a PCI address, a serial number */
	uint64_t memory_bytes;  /* the device's own memory; 0: it uses the machine's */
	uint32_t max_in_flight; /* how many runs the host may give to the device at once, 1 to 16 */
	/* The alignment that the device needs for the data of arguments, a power of two up to 4096; 0 means 64. The
	 * host copies a tensor that is less aligned. Exporters align activations to 16. */
	uint32_t alignment;
	uint32_t flags;                 /* enum inferd_delegate_device_flags */
	uint32_t vendor_id, product_id; /* of PCI or USB, or 0 */
	uint32_t reserved;

	/* --- since 1.1 --- */

	/* A CPU: the largest n_threads for threads_new; 0: not said. The host decides how many of them its process may
	 * use. Runs on worker threads do not count towards max_in_flight; each worker has one run at a time. */
	uint32_t n_threads;
	uint32_t reserved2;

	/* --- since 1.2 --- */

	/* For people, printable ASCII; empty: not said. */
	char driver[64];    /* the driver and its version: "PoCL 6.0" */
	char features[128]; /* what it can do beyond what every device of its kind can: "fp16 subgroups" */
};

/* A part of what store->keep writes: the pieces, one after the other, are the whole. */
struct inferd_delegate_piece {
	const void *bytes;
	size_t n_bytes;
};

/* Built-in only: a store where a delegate keeps what it made from a program (packed weights, compiled code), to find it
 * again when a program file with exactly the same contents is loaded the next time. @key is a text of up to 255
 * characters that names the library's version and the processor for which the data was made. find returns exactly the
 * bytes that were kept as @key, or E_NOT_FOUND. They come from a file that a user may have changed, so check every
 * value that decides an address. All payloads of one program have the same store: one payload can release what another
 * found. Any thread. */
struct inferd_delegate_store {
	uint32_t struct_size;
	uint32_t reserved;
	void *self;
	/* Find what was kept as @key. *ret_bytes begins at a page, is read-only, has 64 readable bytes behind its end,
	 * and stays until *ret_handle is released. Fast. */
	int (*find)(void *self, const char *key, const uint8_t **ret_bytes, size_t *ret_n_bytes, void **ret_handle);
	void (*release)(void *self, void *handle);
	/* Keep @pieces, one after the other, as @key, in place of what was kept as @key before. Bytes that find
	 * returned earlier stay as they are until they are released. All or nothing. Slow: it reads the whole program,
	 * and writes to the disk. */
	int (*keep)(void *self, const char *key, const struct inferd_delegate_piece *pieces, size_t n_pieces,
		struct inferd_delegate_message *message);
};

/* A payload and all that belongs to it. Given to init it lives until destroy; given to probe, until probe returns. */
struct inferd_delegate_payload {
	uint32_t struct_size;
	uint32_t n_args; /* arguments of each run: inputs, then outputs; 0: not known yet */
	/* The bytes of the payload, mapped read-only, with 64 readable bytes behind their end. In a host process they
	 * begin at the start of a page. If @file is set they are a part of that file, with the alignment that they
	 * have there. */
	const uint8_t *bytes;
	uint64_t n_bytes;
	/* The same bytes as a file, for drivers that need one: in @fd from @fd_offset; @fd is -1 if there is no file.
	 * The host keeps and closes the descriptor. */
	uint64_t fd_offset;
	int32_t fd;
	uint32_t n_specs;
	const struct inferd_delegate_pair *const *specs; /* compile specs, from the exporter */
	const char *method;                              /* the method that the payload is part of: "forward" */
	/* Find bytes that the program keeps beside its payloads, by name: weights that several payloads share. They
	 * live as long as the payload, and are mapped like it. OK or E_NOT_FOUND; in a host process also E_MEMORY and
	 * E_INTERNAL. Only while init or probe runs, on the thread that runs it. */
	void *self; /* pass it to the functions below */
	int (*named_data)(void *self, const char *key, const uint8_t **ret_bytes, uint64_t *ret_n_bytes);
	/* A number for the program, the same for all its payloads that exist at the same time, and never 0: payloads
	 * of one program may share what they make of the same named data. */
	uint64_t program;

	/* --- since 1.1 --- */

	/* Options for this one model, from the configuration. They override options with the same key that open was
	 * given. Their values are texts; they come in no order, and no key comes twice. Answer E_INVALID, with the key
	 * in the message, for an option that is unknown or has a value that makes no sense: the user meant something
	 * by it. */
	const struct inferd_delegate_pair *const *options;
	uint32_t n_options;
	uint32_t reserved;
	/* Built-in only, else NULL: the program's file, mapped. @bytes is a part of it, and so is named data, unless
	 * that comes from another file. The file has the same contents whenever the program is loaded, so what is kept
	 * in @store can refer to a place in it instead of holding a copy. @fd is -1 then. */
	const uint8_t *file;
	uint64_t n_file_bytes;
	/* Built-in only, may be NULL. Tell the host that these bytes of @file or of named data are not needed soon, so
	 * that it can give their memory back; they can still be read. Any thread, until destroy. */
	void (*drop)(void *self, const uint8_t *bytes, uint64_t n_bytes);
	/* Built-in only, else NULL; a plug-in keeps what it makes in cache_dir. */
	const struct inferd_delegate_store *store;
	/* Built-in only, may be NULL. Translate the address of a byte of @file or of named data into a number that
	 * means the same byte in every later load of the program. Addresses change from load to load, so data that is
	 * kept in @store refers to such bytes by these numbers: XNNPACK's packed weights name the weights that they
	 * were made from like this. To find the byte again, translate the addresses of the new load and compare the
	 * numbers. If place is NULL, use offsets into @file. E_NOT_FOUND: the byte lies neither in the program's file
	 * nor in its data files. Any thread, until destroy. */
	int (*place)(void *self, const uint8_t *byte, uint64_t *ret_place);
};

enum inferd_delegate_readiness {
	INFERD_DELEGATE_NO = 0,        /* not ready: init can't work on this machine; the message says why */
	INFERD_DELEGATE_RECOMPILE = 1, /* init will work, but has to compile anew; the message says why */
	INFERD_DELEGATE_READY = 2,     /* init will work */
};

/* Defined by the plug-in; the host only passes pointers to them. */
struct inferd_delegate_model;
struct inferd_delegate_instance;
struct inferd_delegate_buffer;
struct inferd_delegate_worker_threads;

enum inferd_delegate_model_flags {
	INFERD_DELEGATE_STATEFUL = 1 << 0,      /* an instance has a state that lasts from run to run */
	INFERD_DELEGATE_DROPS_PAYLOAD = 1 << 1, /* bytes, fd, specs, options and named data are not used after init */

	/* --- since 1.1 --- */

	/* Built-in only: the host makes instances with instance_on_threads instead of instance_new. A host without
	 * worker threads refuses such a model. Every host refuses a model that is STATEFUL, too: a state belongs to a
	 * client, and worker threads serve all clients. */
	INFERD_DELEGATE_ON_THREADS = 1 << 2,

	/* --- since 1.2 --- */

	/* Built-in only: an instance is not bound to worker threads. It is made with instance_new, and each run says
	 * which worker threads it computes on (`threads` of the run). Worker threads may then be made, used and freed
	 * on any thread, one at a time. */
	INFERD_DELEGATE_THREADS_OF_RUN = 1 << 3,
	/* A run that ended early (with any result but OK, or by abandon) has left the state of its instance as it was
	 * before the run, and the same run can be made twice: what it adds to the state has a place that its arguments
	 * name, as rows of a KV cache have. So a request that was cut short can be asked again. Without this flag the
	 * host declares the state lost. */
	INFERD_DELEGATE_REPEATABLE = 1 << 4,
	/* instance_with can make instances of this model that share their state with another instance. */
	INFERD_DELEGATE_SHARES_STATE = 1 << 5,
};

/* What init found out about the model. */
struct inferd_delegate_model_info {
	uint32_t struct_size;
	uint32_t n_inputs, n_outputs; /* together n_args of the payload, if that is known */
	uint32_t flags;               /* enum inferd_delegate_model_flags */
	uint32_t device;              /* index of the device that runs the model */
	uint32_t reserved;
	uint64_t n_bytes;       /* memory that the model takes, shared by its instances */
	uint64_t scratch_bytes; /* memory that each instance takes in addition */

	/* --- since 1.2 --- */

	uint64_t state_bytes;        /* STATEFUL: the state of each instance, which the host charges to its client */
	uint64_t shared_state_bytes; /* SHARES_STATE: the part of it that instance_with shares */
	/* Built-in only: the part of scratch_bytes that all instances on one worker's threads share. The largest of
	 * them counts. */
	uint64_t shared_bytes;
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
	/* Since 1.1: the tensor has the same sizes in every run; those of an output can't be changed. */
	INFERD_DELEGATE_FIXED_SIZES = 1 << 0,
};

/* One argument of a run. */
struct inferd_delegate_arg {
	uint32_t struct_size;
	/* enum inferd_delegate_arg_kind. Since 1.2 a built-in engine may change the kind of an output that is no
	 * tensor: a program's number can turn out to be a DOUBLE where an INT was declared. */
	uint8_t kind;
	/* ExecuTorch's ScalarType of a tensor: 0 u8, 1 i8, 2 i16, 3 i32, 4 i64, 5 f16, 6 f32, 7 f64, 11 bool, 15 bf16,
	 * 27 u16, 28 u32, 29 u64. */
	uint8_t type;
	uint8_t n_dims;
	uint8_t is_output;
	/* A tensor's sizes, dimension 0 first, whatever dim_order says. An output comes with the sizes that the
	 * program has for it; the plug-in sets them to the sizes of the result. It can't change n_dims, and the result
	 * must fit n_bytes. */
	int32_t sizes[INFERD_DELEGATE_MAX_DIMS];
	uint8_t dim_order[INFERD_DELEGATE_MAX_DIMS]; /* dimensions from outermost to innermost; the tensor is dense */
	/* A tensor's bytes. An input is read-only and has 64 readable bytes behind its end; 16 if the host has
	 * INFERD_DELEGATE_HAS_WORKER_THREADS. */
	void *data;
	uint64_t n_bytes; /* an input: its size; an output: its capacity */
	int64_t i;        /* the value of INT and BOOL; an output's is written by the plug-in */
	double d;         /* the value of DOUBLE, likewise */
	/* The same bytes as @data in a memory file: in @fd (-1: none) at @fd_offset; and in a buffer, if buffer_import
	 * took that file: in @buffer (NULL: none) at @buffer_offset. */
	int32_t fd;
	uint32_t flags; /* enum inferd_delegate_arg_flags */
	uint64_t fd_offset;
	struct inferd_delegate_buffer *buffer;
	uint64_t buffer_offset;
};

enum inferd_delegate_run_flags {
	INFERD_DELEGATE_PROFILE = 1 << 0, /* call event for each part of the run */
	/* Since 1.2: go on with the run of this instance that answered UNFINISHED. The arguments are the same. */
	INFERD_DELEGATE_CONTINUES = 1 << 1,
};

/* One run. Lives until the run ends: until execute returns, or done is called. */
struct inferd_delegate_run {
	uint32_t struct_size;
	uint32_t flags; /* enum inferd_delegate_run_flags */
	uint32_t n_args;
	uint32_t reserved;
	/* Inputs, then outputs. No output shares memory with another argument. */
	struct inferd_delegate_arg *const *args;
	/* With PROFILE the plug-in reports each part of the work (an operator, a partition) and how long it took, in
	 * the order in which the parts ran. From any thread, before the run ends. The host copies @name before event
	 * returns. */
	void *self;
	void (*event)(void *self, const char *name, uint64_t ns);

	/* --- since 1.1 --- */

	/* With PROFILE, a plug-in with INFERD_DELEGATE_TELLS_WORK calls these when the work itself begins and when it
	 * has ended, so that preparing the measurement is not counted. Once each, on the thread of execute; began
	 * without ended only if the run fails. May be NULL. */
	void (*began)(void *self);
	void (*ended)(void *self);

	/* --- since 1.2 --- */

	/* The worker threads to compute on, for a model with THREADS_OF_RUN; else NULL. They may be others when the run
	 * continues. */
	struct inferd_delegate_worker_threads *threads;
	/* Answer UNFINISHED at the first good place after this time, so that other requests get their turn. 0: no
	 * slices. A hint. */
	uint64_t slice_ns;
	/* enum inferd_delegate_priority of the request. Between two pieces of work on a device, runs of a higher
	 * priority go first. A hint. */
	uint32_t priority;
	uint32_t reserved2;
	/* Report how long the device has worked on the run, in all or since the last call, without the time for which
	 * the run waited for others. The client is charged for that, not for the time that execute or submit took. On
	 * any thread, before the run ends, whatever its result. May be NULL. */
	void (*busy)(void *self, uint64_t ns);
};

enum inferd_delegate_priority {
	INFERD_DELEGATE_PRIORITY_UNKNOWN = 0,
	INFERD_DELEGATE_PRIORITY_IDLE = 1,
	INFERD_DELEGATE_PRIORITY_BATCH = 2,
	INFERD_DELEGATE_PRIORITY_INTERACTIVE = 3,
	INFERD_DELEGATE_PRIORITY_REALTIME = 4,
};

enum inferd_delegate_memory_kind {
	INFERD_DELEGATE_MEMFD = 0, /* the machine's memory, as a memory file */
	/* A device's memory, as a dma-buf. While a run uses it, inferd holds the CPU's access to it open
	 * (DMA_BUF_IOCTL_SYNC), so @data can be read and written. */
	INFERD_DELEGATE_DMABUF = 1,
};

/* Memory for buffer_import: whole pages of 4096 bytes. Lives until buffer_import returns; the memory itself stays until
 * buffer_free. */
struct inferd_delegate_memory {
	uint32_t struct_size;
	uint32_t kind;               /* enum inferd_delegate_memory_kind */
	int32_t fd;                  /* the host keeps and closes it; duplicate it to keep it longer */
	uint32_t is_written;         /* 1: runs write to it; 0: @data is mapped read-only */
	uint64_t fd_offset, n_bytes; /* the part of @fd */
	void *data;                  /* the same part, mapped; NULL: it can't be mapped */
};

/* How a submitted run reports its end. Lives until done is called. */
struct inferd_delegate_completion {
	uint32_t struct_size;
	uint32_t reserved;
	void *self;
	/* Report the end of the run: exactly once for each submit that returned 0, from any thread, also before submit
	 * has returned. @result is an enum inferd_delegate_result; @text says why the run failed, or is NULL, and is
	 * copied. The next run of the same instance may begin on another thread before done has returned. */
	void (*done)(void *self, int result, const char *text);
};

struct inferd_delegate_stats {
	uint32_t struct_size;
	uint32_t reserved;
	uint64_t n_runs;
	uint64_t busy_ns;      /* time that the device spent on runs */
	uint64_t memory_bytes; /* the device's memory in use */

	/* --- since 1.2 --- */

	uint64_t copied_bytes; /* of arguments, which the engine copied to or from the device's memory */
};

/* An operator that the plug-in brings along, for programs that call it by name outside any payload. */
struct inferd_delegate_kernel {
	uint32_t struct_size;
	uint32_t reserved;
	const char *name; /* namespace::name.overload, below 128 characters: "acme::swish.out" */
	/* One letter for each argument, with '>' before the outputs, below 60 characters: "TD>T". T tensor, I integer,
	 * D double, B boolean, S any number; t, i, d, b: the same or None. All outputs are T, and there is at least
	 * one. */
	const char *signature;
	/* Compute it. @self is what open returned; @args are in the order of the signature. Any thread, several at a
	 * time. */
	int (*run)(void *self, struct inferd_delegate_arg *const *args, uint32_t n_args,
		struct inferd_delegate_message *message);
};

enum inferd_delegate_flags {
	INFERD_DELEGATE_ONE_THREAD = 1 << 0, /* plug-ins only: make all calls on the thread that called the entry */
	/* Since 1.1: in a run with PROFILE, execute calls the run's began and ended around the work that counts.
	 * Without this flag, the host measures the whole call of execute. */
	INFERD_DELEGATE_TELLS_WORK = 1 << 1,
};

/* The table of a delegate. Constant, and valid until the process ends. */
struct inferd_delegate {
	uint32_t struct_size;
	uint16_t major, minor; /* INFERD_DELEGATE_MAJOR, INFERD_DELEGATE_MINOR */
	uint32_t flags;        /* enum inferd_delegate_flags */
	uint32_t n_kernels;
	const char *id;      /* the delegate id in programs, below 64 characters: "AcmeBackend" */
	const char *name;    /* the name in the configuration, below 64 characters: "acme" */
	const char *version; /* of the plug-in, for people; NULL: not said */
	const struct inferd_delegate_kernel *const *kernels; /* plug-ins only, up to 256; NULL if n_kernels is 0 */

	/* --- required ------------------------------------------------------------------------------------ */

	/* Find the vendor's library and the devices. Called once, before all other functions. *ret_self is passed to
	 * the functions that take @self. E_NOT_FOUND with the reason: the backend is not available on this machine. */
	int (*open)(const struct inferd_delegate_host *host, void **ret_self, struct inferd_delegate_message *message);
	/* Undo open. The last call, and only after an open that returned 0. Models whose run never ended are not
	 * destroyed; all others have been. */
	void (*close)(void *self);
	/* Describe device @index, beginning with 0; E_NOT_FOUND after the last one. The answers stay the same until
	 * close. A plug-in may have up to 8 devices. Any thread. */
	int (*devices)(void *self, uint32_t index, struct inferd_delegate_device *ret_device);
	/* Find out from the payload's header and its specs whether init could work; keep nothing. Returns OK whatever
	 * *ret_readiness (enum inferd_delegate_readiness) is; unless that is READY, the message says why. Fast. Any
	 * thread. */
	int (*probe)(void *self, const struct inferd_delegate_payload *payload, uint32_t *ret_readiness,
		struct inferd_delegate_message *message);
	/* Make a payload ready to run. *ret_model is the host's until it calls destroy. Everything slow belongs here:
	 * reading and checking the payload, compiling, packing weights. E_INVALID: the payload, a spec or an option is
	 * wrong. E_UNSUPPORTED: a part of the payload can't be run here; the message names it. Any thread, several at
	 * a time. */
	int (*init)(void *self, const struct inferd_delegate_payload *payload, struct inferd_delegate_model **ret_model,
		struct inferd_delegate_model_info *ret_info, struct inferd_delegate_message *message);
	/* Run, and return when the outputs are written. @instance is NULL if there is no instance_new; the host then
	 * makes one run of a model at a time. E_ARGUMENT: an argument does not suit the payload. E_CANCELLED: as
	 * cancel asked. E_INTERNAL and E_DEVICE say that the engine has failed: if a model's runs end so too often,
	 * inferd goes on with its next variant. */
	int (*execute)(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
		const struct inferd_delegate_run *run, struct inferd_delegate_message *message);
	/* Free the model. All its instances have been freed before. Any thread. */
	void (*destroy)(struct inferd_delegate_model *model);

	/* --- optional: may be NULL ----------------------------------------------------------------------- */

	/* Make an instance of @model: what one run at a time needs. *ret_instance is the host's until it calls
	 * instance_free, before destroy of the model. Both or neither; a built-in delegate needs them. Any thread,
	 * several at a time. */
	int (*instance_new)(struct inferd_delegate_model *model, struct inferd_delegate_instance **ret_instance,
		struct inferd_delegate_message *message);
	void (*instance_free)(struct inferd_delegate_instance *instance);
	/* Reset the state to that of a new instance. Required if any model is STATEFUL. No run of @instance is under
	 * way. */
	int (*instance_reset)(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message);
	/* Start a run and return; @completion reports its end. The host uses submit instead of execute where there is
	 * one; execute is required nevertheless. @run and @completion live until done is called. If submit returns
	 * anything but 0, the run was not started, and done must not be called. */
	int (*submit)(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance,
		const struct inferd_delegate_run *run, const struct inferd_delegate_completion *completion,
		struct inferd_delegate_message *message);
	/* Ask the run of @instance (of @model, where there are no instances) to end early. The run still ends as
	 * usual: done is called, or execute returns, with E_CANCELLED or with its result. cancel is called on another
	 * thread, at most once for a run. A submitted run is cancelled only after submit has returned. A run by
	 * execute can be cancelled from the call of execute on, so remember a cancel that comes before the engine has
	 * begun. A cancel that comes too late does nothing; the instance's next run begins only after cancel has
	 * returned. Do not call done from within cancel if the host has INFERD_DELEGATE_HAS_WORKER_THREADS: it may
	 * hold locks. With ONE_THREAD only submitted runs can be cancelled. */
	void (*cancel)(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance);

	/* Buffers: memory that a device can reach. Any thread, several calls at a time.
	 *
	 * buffer_import makes memory known to @device. The host imports memory when a run first uses it, and passes
	 * the buffer with each argument that lies in it. After E_UNSUPPORTED, or any other failure, such arguments
	 * come without a buffer. The host calls buffer_free when the client gives its memory back, or when other
	 * memory is used more; never while a run uses the buffer. Requires buffer_free. */
	int (*buffer_import)(void *self, uint32_t device, const struct inferd_delegate_memory *memory,
		struct inferd_delegate_buffer **ret_buffer);
	/* Allocate a buffer in the memory of @device. Requires buffer_map, buffer_unmap and buffer_free. */
	int (*buffer_alloc)(void *self, uint32_t device, uint64_t n_bytes, struct inferd_delegate_buffer **ret_buffer);
	/* Map a buffer for reading and writing, until buffer_unmap. What was written is there when it is mapped
	 * again. */
	int (*buffer_map)(struct inferd_delegate_buffer *buffer, void **ret_bytes);
	void (*buffer_unmap)(struct inferd_delegate_buffer *buffer);
	/* Export a buffer as a dma-buf. *ret_fd is a new descriptor, which the host closes. */
	int (*buffer_export)(struct inferd_delegate_buffer *buffer, int *ret_fd);
	/* Free a buffer of buffer_import or buffer_alloc. It is not mapped, and no run uses it. */
	void (*buffer_free)(struct inferd_delegate_buffer *buffer);

	/* Report what @device has done since open. Any thread. */
	int (*stats)(void *self, uint32_t device, struct inferd_delegate_stats *ret_stats);

	/* --- since 1.1, optional: may be NULL, or absent (INFERD_DELEGATE_HAS). Built-in only ------------- */

	/* Worker threads. An engine for the CPU computes on the threads of inferd's workers, so that the two do not
	 * compete for processors. One struct inferd_delegate_worker_threads is what one worker has for the engine:
	 * @n_threads threads, the worker's own thread included, and their memory. A worker may have several, with
	 * different n_threads, and uses one of them at a time. They are made, used and freed on the worker's thread.
	 * E_ARGUMENT: @n_threads is 0 or too large; E_LIMIT: the threads can't be started. threads_new, threads_free,
	 * instance_on_threads and threads_parallel_for come all four together, or, if all models have THREADS_OF_RUN,
	 * only the first two. Only a host with INFERD_DELEGATE_HAS_WORKER_THREADS calls them. */
	int (*threads_new)(void *self, uint32_t device, uint32_t n_threads,
		struct inferd_delegate_worker_threads **ret_threads, struct inferd_delegate_message *message);
	/* All instances on @threads have been freed before. */
	void (*threads_free)(struct inferd_delegate_worker_threads *threads);
	/* Make an instance of a model that has INFERD_DELEGATE_ON_THREADS. The instance is made, runs and is freed on
	 * the thread that made @threads, and is freed before them. */
	int (*instance_on_threads)(struct inferd_delegate_model *model, struct inferd_delegate_worker_threads *threads,
		struct inferd_delegate_instance **ret_instance, struct inferd_delegate_message *message);
	/* Call @fn for all of [0, @n) in pieces of at least @grain, on the worker threads, and return when all pieces
	 * are done. inferd's own operators compute this way between two payloads. @fn does not fail and does not call
	 * the plug-in. */
	void (*threads_parallel_for)(struct inferd_delegate_worker_threads *threads,
		void (*fn)(void *arg, size_t begin, size_t end), void *arg, size_t n, size_t grain);

	/* The worker has nothing more to do for now, so the threads may sleep. Before that they may spin, waiting for
	 * work between one loop or run and the next. On the thread that made @threads, outside all other calls. */
	void (*threads_rest)(struct inferd_delegate_worker_threads *threads);

	/* Keep what init made for the program (not only for this payload) in the payload's store, unless it came from
	 * there or there is no store. May be slow; no request waits for it. Any thread, also while the model runs. */
	int (*keep)(struct inferd_delegate_model *model, struct inferd_delegate_message *message);

	/* Allocate now what runs with the largest sizes need, so that no run has to. Called for an instance whose
	 * arguments all have fixed sizes, or whose model's scratch_bytes are at most 4 MiB, after instance_on_threads
	 * and on its thread. E_MEMORY or E_LIMIT: the instance is freed, and made again when there may be memory.
	 * After any other failure the run that meets it fails. */
	int (*instance_warm)(struct inferd_delegate_instance *instance, struct inferd_delegate_message *message);

	/* Tell the dim order that the engine prefers for argument @arg of @model, a tensor of @n_dims dimensions with
	 * dimension 0 outermost. Programs fix the order of the tensors between their parts, as a rule dimension 0
	 * outermost. An engine that computes with channels last transposes its inputs and its outputs, and the next
	 * part transposes them back; inferd drops both where the parts agree. Returns @n_dims, with ret_dim_order
	 * filled in as in inferd_delegate_arg; or 0: no other order is better. Before the model has an instance. */
	uint32_t (*preferred_order)(const struct inferd_delegate_model *model, uint32_t arg, uint32_t n_dims,
		uint8_t ret_dim_order[INFERD_DELEGATE_MAX_DIMS]);
	/* The @n_args arguments come from now on in the order that preferred_order told for each. Not every
	 * preference can be met: @args may hold any of them. Required together with preferred_order. Called at most
	 * once, before the model has an instance. E_MEMORY. */
	int (*adopt_orders)(struct inferd_delegate_model *model, const uint32_t *args, uint32_t n_args,
		struct inferd_delegate_message *message);

	/* The memory that the instances on @threads take now, with what they share. What several worker threads of one
	 * worker have in common is counted by one of them. NULL: the host counts scratch_bytes for each instance. Any
	 * thread. */
	uint64_t (*threads_bytes)(const struct inferd_delegate_worker_threads *threads);

	/* --- since 1.2, optional: may be NULL, or absent (INFERD_DELEGATE_HAS) ---------------------------- */

	/* As instance_new, for an instance that shares its state with @other: an instance of a model of the same
	 * program, which also has SHARES_STATE. Runs of instances that share follow each other. @other is freed last.
	 * instance_reset of one of them resets the shared state. E_ARGUMENT: the two have no state in common. */
	int (*instance_with)(struct inferd_delegate_model *model, struct inferd_delegate_instance *other,
		struct inferd_delegate_instance **ret_instance, struct inferd_delegate_message *message);
	/* End the run of @instance that answered UNFINISHED; it does not continue. Its arguments are not used any more
	 * when abandon returns. Required if execute can answer UNFINISHED. */
	void (*abandon)(struct inferd_delegate_model *model, struct inferd_delegate_instance *instance);
	/* The instances on all worker threads together take from now on at most @n_bytes, as threads_bytes counts;
	 * UINT64_MAX: any number. They keep what they have. What needs more fails with E_MEMORY before it is
	 * allocated: instance_on_threads, instance_warm, or execute where it needs more memory for larger sizes. Any
	 * thread. */
	void (*limit_memory)(void *self, uint64_t n_bytes);
	/* Plug-ins only: compile what inits have noted in cache_dir, and keep it there for them. Called once, after
	 * open, in a process that has no models and ends afterwards; others with the same cache_dir may do the same at
	 * the same time. That process may start the programs that a compiler needs if the plug-in's section in
	 * inferd.conf has `build_tools = yes`. A failure's message is shown if init still answers TO_BUILD. */
	int (*build)(void *self, struct inferd_delegate_message *message);
};

#define INFERD_DELEGATE_ENTRY "inferd_delegate_entry"
/* The plug-in defines this function. The attribute keeps it visible under -fvisibility=hidden. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const struct inferd_delegate *
inferd_delegate_entry(uint32_t host_major, uint32_t host_minor);

#ifdef __cplusplus
}
#endif

#endif
