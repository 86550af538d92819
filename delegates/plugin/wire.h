/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol between inferd and a plug-in's host process.
 *
 * There are two pairs of SOCK_SEQPACKET sockets; each packet is one message. On `calls` inferd asks and the host
 * answers, in any order; an answer has the id of its question. On `asks` the host asks for named data, one question
 * at a time, and sends lines for the log. Both sides check every packet: its type, its length, and every count and
 * offset in it, since a broken library may have corrupted the host.
 *
 * Payloads and tensors travel in memory files. A memory file with tensors is shared by a client, inferd and the
 * host: it is passed once, and named by a number afterwards. inferd seals its own memory files against changing
 * size, and those that only inferd writes against writing, too. A client's memory file is one that inferd accepted
 * as a region. */
#ifndef DELEGATES_PLUGIN_WIRE_H
#define DELEGATES_PLUGIN_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ET_PLUGIN_WIRE =
		5, /* the protocol's version; both sides come from one build, but a stale host must be noticed */
	ET_PLUGIN_MAX_PACKET = 64 * 1024,
	ET_PLUGIN_MAX_ARGS = 256,
	ET_PLUGIN_MAX_EVENTS = 512,
	ET_PLUGIN_MAX_DEVICES = 8,
	ET_PLUGIN_MAX_THREADS = 512, /* sets of worker threads; inferd numbers them from 1 on */
	ET_PLUGIN_MAX_KERNELS = 256,
	ET_PLUGIN_TEXT = 256,
	ET_PLUGIN_DIMS = 16,
	ET_PLUGIN_CALLS_FD = 3, /* descriptors in the host process */
	ET_PLUGIN_ASKS_FD = 4,
	ET_PLUGIN_MAX_FILES = 1024,                         /* descriptors that a host process may have */
	ET_PLUGIN_MAX_SHOWN = ET_PLUGIN_MAX_FILES / 2,      /* about so many are memory that runs may name */
	ET_PLUGIN_MAX_KNOWN = ET_PLUGIN_MAX_FILES - 128,    /* such memory and payloads; the library has the rest */
	ET_PLUGIN_MAX_PAYLOADS = ET_PLUGIN_MAX_KNOWN - 128, /* payloads */
};

enum et_plugin_message {
	/* inferd to host, on `calls`: with an answer (ANSWER, but for START and RUN) unless said otherwise */
	ET_PLUGIN_START = 1,      /* struct et_plugin_start; answered by STARTED */
	ET_PLUGIN_KERNEL,         /* handle.instance is a kernel's index: answers its name and signature */
	ET_PLUGIN_PROBE,          /* struct et_plugin_init */
	ET_PLUGIN_INIT,           /* struct et_plugin_init */
	ET_PLUGIN_DESTROY,        /* handle.model; no answer */
	ET_PLUGIN_INSTANCE_NEW,   /* handle.model (0: for kernels), handle.instance */
	ET_PLUGIN_INSTANCE_FREE,  /* handle.instance; no answer */
	ET_PLUGIN_INSTANCE_RESET, /* handle.instance */
	ET_PLUGIN_SHARE,          /* struct et_plugin_share */
	ET_PLUGIN_FORGET,         /* handle.instance is the number of a memory file; no answer */
	ET_PLUGIN_RUN,            /* struct et_plugin_run; answered by DONE */
	ET_PLUGIN_CANCEL,         /* handle.instance, handle.model is the run's number; no answer */
	ET_PLUGIN_STATS,          /* handle.instance is a device */
	ET_PLUGIN_TRY_BUFFERS,    /* handle.instance is a device; for inferd-delegate-check */
	ET_PLUGIN_END,            /* unused: inferd hangs up instead */
	/* host to inferd, on `calls` */
	ET_PLUGIN_STARTED,
	ET_PLUGIN_ANSWER,
	ET_PLUGIN_DONE,
	/* on `asks` */
	ET_PLUGIN_LOG,          /* host to inferd; no answer */
	ET_PLUGIN_NAMED,        /* host to inferd */
	ET_PLUGIN_NAMED_ANSWER, /* inferd to host */
	/* inferd to host, on `calls` */
	ET_PLUGIN_INSTANCE_WITH, /* handle.instance, which shares state with handle.other, of model handle.model */
	ET_PLUGIN_ABANDON,       /* handle.instance, handle.model is the number of its unfinished run; no answer */
	/* struct et_plugin_init without a model: describe the program that came with it. The answer's n_bytes are
	 * written into the memory file that `model` numbers. For inferd-program-host. */
	ET_PLUGIN_DESCRIBE,
};

struct et_plugin_header {
	uint32_t type;
	uint32_t n_bytes; /* of the whole packet */
	uint64_t id;
};

enum et_plugin_start_flags {
	ET_PLUGIN_BUILDS = 1 << 0,      /* call build, answer STARTED, and end */
	ET_PLUGIN_BUILD_TOOLS = 1 << 1, /* which may start a linker */
};

/* Followed by n_options and n_variables times "key\0value\0", n_option_bytes in all. */
struct et_plugin_start {
	struct et_plugin_header header;
	uint32_t wire;
	uint32_t n_options, n_option_bytes;
	uint32_t has_cache;
	uint32_t n_variables; /* of the environment, behind the options in the same form */
	uint32_t flags;       /* enum et_plugin_start_flags */
	char path[512], cache_dir[512];
	uint64_t memory_limit; /* private memory that the process may have at first; 0: no limit */
};

struct et_plugin_device {
	uint32_t kind, max_in_flight, alignment, flags;
	uint32_t vendor_id, product_id;
	uint64_t memory_bytes;
	char name[64], id[64], driver[64], features[128];
};

enum et_plugin_started_flags {
	ET_PLUGIN_HAS_CANCEL = 1 << 0,
	ET_PLUGIN_HAS_SUBMIT = 1 << 1,
	ET_PLUGIN_HAS_RESET = 1 << 2,
	ET_PLUGIN_HAS_STATS = 1 << 3,
	ET_PLUGIN_HAS_INSTANCES = 1 << 4, /* else one run at a time */
};

struct et_plugin_started {
	struct et_plugin_header header;
	uint32_t result; /* enum inferd_delegate_result */
	uint32_t flags;
	uint32_t sandbox; /* enum et_sandbox_part */
	uint32_t n_devices, n_kernels;
	uint16_t major, minor;
	char id[64], name[64], version[64];
	char text[ET_PLUGIN_TEXT];
	struct et_plugin_device devices[ET_PLUGIN_MAX_DEVICES];
};

/* PROBE, INIT. With a memory file: the payload; from the next multiple of 4096 on the specs, then the model's
 * options, n_pair_bytes in all. Each pair is two u32 (the lengths of key and value), the key, NUL, the value, NUL,
 * padded to 8. */
struct et_plugin_init {
	struct et_plugin_header header;
	uint64_t model; /* its number, inferd's choice */
	uint64_t n_payload_bytes, n_pair_bytes;
	uint32_t n_specs, n_options, n_args;
	/* What is made of a client's program takes at most so many KiB, which its user has free; 0: any number. For
	 * inferd-program-host. */
	uint32_t max_kib;
	uint64_t program; /* a number, the same for all payloads of one program */
	char method[128];
};

struct et_plugin_answer {
	struct et_plugin_header header;
	uint32_t result;
	uint32_t readiness;
	uint32_t n_inputs, n_outputs, flags, device;
	uint64_t n_bytes, scratch_bytes, state_bytes, shared_state_bytes;
	uint64_t stats[3];
	char text[ET_PLUGIN_TEXT]; /* also a kernel's name */
	char signature[64];
};

/* The small messages; enum et_plugin_message says what the numbers are. */
struct et_plugin_handle {
	struct et_plugin_header header;
	uint64_t model, instance, other;
};

/* With a memory file, which later runs may name: the host maps the parts of it that a run uses, and may keep them
 * mapped until FORGET. */
struct et_plugin_share {
	struct et_plugin_header header;
	uint64_t id; /* its number, inferd's choice, never used again */
	uint64_t n_bytes;
};

struct et_plugin_arg {
	uint8_t kind, type, n_dims, is_output;
	uint32_t zero;
	uint64_t memory; /* the number of the memory file with the tensor; 0: the tensor has no bytes */
	uint64_t offset; /* in that file */
	uint64_t n_bytes;
	int64_t i;
	double d;
	int32_t sizes[ET_PLUGIN_DIMS];
	uint8_t dim_order[ET_PLUGIN_DIMS];
};

struct et_plugin_run {
	struct et_plugin_header header;
	uint64_t model; /* 0: kernel number @kernel */
	uint64_t instance;
	uint32_t kernel; /* with a model: the run's number within the instance, which a CANCEL names */
	uint32_t n_args; /* 0 if the run CONTINUES: it has its arguments */
	uint32_t flags;  /* enum inferd_delegate_run_flags */
	uint32_t priority;
	uint32_t threads, n_threads; /* the worker threads, see ET_PLUGIN_MAX_THREADS, and how many; 0: none */
	uint64_t slice_ns;
	struct et_plugin_arg args[];
};

/* An output, in the order of the arguments. */
struct et_plugin_output {
	int32_t sizes[ET_PLUGIN_DIMS];
	int64_t i;
	double d;
	uint32_t kind, zero; /* of a number or None: may be another one than the program declares */
};

/* A part of a profiled run and its time. */
struct et_plugin_event {
	uint64_t ns;
	char name[56];
};

/* A result besides enum inferd_delegate_result: the memory of an argument could not be read or written (SIGBUS). */
enum { ET_PLUGIN_RESULT_FAULT = 1000 };

/* The end of a run. Behind the outputs follow n_events events. */
struct et_plugin_done {
	struct et_plugin_header header;
	uint32_t result, n_outputs;
	uint32_t n_events, zero;
	uint64_t busy_ns; /* that the device worked on the run; 0: not said */
	char text[ET_PLUGIN_TEXT];
	struct et_plugin_output outputs[];
};

struct et_plugin_log {
	struct et_plugin_header header;
	uint32_t level, zero;
	char text[512];
};

/* NAMED: the question for @key. NAMED_ANSWER: a memory file of @n_bytes, unless result is not 0. */
struct et_plugin_named {
	struct et_plugin_header header;
	uint64_t call; /* the id of the INIT or PROBE that wants it */
	uint64_t n_bytes;
	uint32_t result, zero;
	char key[256];
};

static_assert(sizeof(struct et_plugin_header) == 16, "wire");
static_assert(offsetof(struct et_plugin_start, path) == 40, "wire");
static_assert(sizeof(struct et_plugin_device) == 352, "wire");
static_assert(offsetof(struct et_plugin_started, devices) == 488, "wire");
static_assert(sizeof(struct et_plugin_init) == 192, "wire");
static_assert(offsetof(struct et_plugin_answer, text) == 96, "wire");
static_assert(sizeof(struct et_plugin_share) == 32, "wire");
static_assert(sizeof(struct et_plugin_arg) == 128, "wire");
static_assert(offsetof(struct et_plugin_run, args) == 64, "wire");
static_assert(sizeof(struct et_plugin_event) == 64, "wire");
static_assert(sizeof(struct et_plugin_output) == 88, "wire");
static_assert(offsetof(struct et_plugin_done, outputs) == 296, "wire");
static_assert(sizeof(struct et_plugin_done) + ET_PLUGIN_MAX_ARGS * sizeof(struct et_plugin_output) +
			      ET_PLUGIN_MAX_EVENTS * sizeof(struct et_plugin_event) <=
		      ET_PLUGIN_MAX_PACKET,
	"the largest answer fits a packet");
static_assert(sizeof(struct et_plugin_run) + ET_PLUGIN_MAX_ARGS * sizeof(struct et_plugin_arg) <= ET_PLUGIN_MAX_PACKET,
	"the largest run fits a packet");

enum { ET_PLUGIN_PAGE = 4096 };

/* --- packets, for both sides ---------------------------------------------------------------------- */

/* Send all of @packet with at most one descriptor (-1: none). 0 or negative errno; -EAGAIN if @may_wait is 0 and the
 * peer does not read. */
int et_plugin_send(int socket, const void *packet, int fd, int may_wait);
/* Receive one packet, waiting for it unless @may_wait is 0. Returns the number of bytes (at least a header's, and
 * as many as the header says), 0 when the peer is gone, or negative errno; -EBADMSG for a malformed packet. *ret_fd
 * is the caller's, or -1: none came, or this process has no room for it. */
int et_plugin_receive(int socket, void *packet, size_t room, int *ret_fd, int may_wait);
/* Make a memory file of @n_bytes, sealed against changing size. Returns its descriptor, or negative errno. */
int et_plugin_memory(const char *name, uint64_t n_bytes);
/* Seal it against writing, too. It must not be mapped for writing any more. 0 or negative errno. */
int et_plugin_memory_seal(int fd);

#endif
