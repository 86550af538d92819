/* SPDX-License-Identifier: BSD-3-Clause */
/* What inferd and a plug-in's host process say to each other.
 *
 * Two SOCK_SEQPACKET pairs, one packet one message. On `calls` inferd asks and the host answers, each answer with
 * its question's id, in any order. On `asks` the host asks for named data, one question at a time, and sends
 * lines for the log. Both sides check every packet: its type, that it is as long as it says, and every count and
 * offset in it, since the host may be in the hands of a broken library.
 *
 * Payloads and tensors travel in memory files: a tensor lies in one that clients, inferd and the host share, which is
 * passed once and named by a number afterwards. Those of inferd's own are sealed against changing size, those that only
 * inferd writes against writing too; those of clients are what inferd accepts as a region. */
#ifndef DELEGATES_PLUGIN_WIRE_H
#define DELEGATES_PLUGIN_WIRE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
	ET_PLUGIN_WIRE = 3, /* both come from one build; a stale host is still told */
	ET_PLUGIN_MAX_PACKET = 64 * 1024,
	ET_PLUGIN_MAX_ARGS = 256,
	ET_PLUGIN_MAX_EVENTS = 512,
	ET_PLUGIN_MAX_DEVICES = 8,
	ET_PLUGIN_MAX_KERNELS = 256,
	ET_PLUGIN_TEXT = 256,
	ET_PLUGIN_DIMS = 16,
	ET_PLUGIN_CALLS_FD = 3, /* in the host process */
	ET_PLUGIN_ASKS_FD = 4,
	ET_PLUGIN_MAX_FILES = 1024,                      /* that a host process may have open */
	ET_PLUGIN_MAX_SHOWN = ET_PLUGIN_MAX_FILES / 2,   /* of them memory that runs may name, about */
	ET_PLUGIN_MAX_KNOWN = ET_PLUGIN_MAX_FILES - 128, /* memory and payloads; the rest is the library's own */
	ET_PLUGIN_MAX_PAYLOADS = ET_PLUGIN_MAX_KNOWN - 128,
};

enum et_plugin_message {
	/* inferd to host */
	ET_PLUGIN_START = 1,
	ET_PLUGIN_KERNEL, /* the name of one */
	ET_PLUGIN_PROBE,
	ET_PLUGIN_INIT,
	ET_PLUGIN_DESTROY, /* no answer */
	ET_PLUGIN_INSTANCE_NEW,
	ET_PLUGIN_INSTANCE_FREE, /* no answer */
	ET_PLUGIN_INSTANCE_RESET,
	ET_PLUGIN_SHARE,
	ET_PLUGIN_FORGET, /* no answer; of memory */
	ET_PLUGIN_RUN,
	ET_PLUGIN_CANCEL, /* no answer */
	ET_PLUGIN_STATS,
	ET_PLUGIN_TRY_BUFFERS, /* for those who try a plug-in: of that device */
	ET_PLUGIN_END,         /* no answer but the end of the connection */
	/* host to inferd */
	ET_PLUGIN_STARTED,
	ET_PLUGIN_ANSWER,
	ET_PLUGIN_DONE,
	/* on the second pair */
	ET_PLUGIN_LOG,
	ET_PLUGIN_NAMED,
	ET_PLUGIN_NAMED_ANSWER,
};

struct et_plugin_header {
	uint32_t type;
	uint32_t n_bytes; /* of the whole packet */
	uint64_t id;
};

/* Followed by n_options times "key\0value\0", n_option_bytes in all. */
struct et_plugin_start {
	struct et_plugin_header header;
	uint32_t wire;
	uint32_t n_options, n_option_bytes;
	uint32_t has_cache;
	char path[512], cache_dir[512];
};

struct et_plugin_device {
	uint32_t kind, max_in_flight, alignment, flags;
	uint32_t vendor_id, product_id;
	uint64_t memory_bytes;
	char name[64], id[64];
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

/* PROBE, INIT. With a memory file: the payload, then from the next multiple of 4096 the specs and behind them the model's
 * options, n_pair_bytes in all, each as two u32 (length of key and of value), the key, NUL, the value, NUL, padded to 8. */
struct et_plugin_init {
	struct et_plugin_header header;
	uint64_t model; /* its number, inferd's choice */
	uint64_t n_payload_bytes, n_pair_bytes;
	uint32_t n_specs, n_options, n_args, zero;
	uint64_t program; /* the same for payloads of one program */
	char method[128];
};

struct et_plugin_answer {
	struct et_plugin_header header;
	uint32_t result;
	uint32_t readiness;
	uint32_t n_inputs, n_outputs, flags, device;
	uint64_t n_bytes, scratch_bytes;
	uint64_t stats[3];
	char text[ET_PLUGIN_TEXT]; /* also a kernel's name */
	char signature[64];
};

/* Whatever is about a model, an instance, a run or a kernel's index. */
struct et_plugin_handle {
	struct et_plugin_header header;
	uint64_t model, instance; /* CANCEL: the run's number instead of the model */
};

/* With a memory file, which runs from now on may name: the host maps the parts of it that a run uses, for as long as
 * that run, and may keep them mapped until FORGET. */
struct et_plugin_share {
	struct et_plugin_header header;
	uint64_t id; /* inferd's choice, never used again */
	uint64_t n_bytes;
};

struct et_plugin_arg {
	uint8_t kind, type, n_dims, is_output;
	uint32_t zero;
	uint64_t memory; /* its number; 0: empty */
	uint64_t offset; /* in it */
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
	uint32_t kernel, n_args; /* with a model: the instance's run number, which a cancel names */
	uint32_t flags;          /* enum inferd_delegate_run_flags */
	uint32_t zero;
	struct et_plugin_arg args[];
};

/* The outputs in their order, as they came out. */
struct et_plugin_output {
	int32_t sizes[ET_PLUGIN_DIMS];
	int64_t i;
	double d;
};

/* One part of the run and its time. */
struct et_plugin_event {
	uint64_t ns;
	char name[56];
};

/* Beyond inferd_delegate_result: memory that an argument lies in could not be read or written (SIGBUS). */
enum { ET_PLUGIN_RESULT_FAULT = 1000 };

/* Followed by n_events of them behind the outputs. */
struct et_plugin_done {
	struct et_plugin_header header;
	uint32_t result, n_outputs;
	uint32_t n_events, zero;
	char text[ET_PLUGIN_TEXT];
	struct et_plugin_output outputs[];
};

struct et_plugin_log {
	struct et_plugin_header header;
	uint32_t level, zero;
	char text[512];
};

/* NAMED: the question. NAMED_ANSWER: @n_bytes of it, with a memory file unless result says it is not there. */
struct et_plugin_named {
	struct et_plugin_header header;
	uint64_t call; /* the id of the INIT or PROBE that wants it */
	uint64_t n_bytes;
	uint32_t result, zero;
	char key[256];
};

static_assert(sizeof(struct et_plugin_header) == 16, "wire");
static_assert(offsetof(struct et_plugin_start, path) == 32, "wire");
static_assert(sizeof(struct et_plugin_device) == 160, "wire");
static_assert(offsetof(struct et_plugin_started, devices) == 488, "wire");
static_assert(sizeof(struct et_plugin_init) == 192, "wire");
static_assert(offsetof(struct et_plugin_answer, text) == 80, "wire");
static_assert(sizeof(struct et_plugin_share) == 32, "wire");
static_assert(sizeof(struct et_plugin_arg) == 128, "wire");
static_assert(offsetof(struct et_plugin_run, args) == 48, "wire");
static_assert(sizeof(struct et_plugin_event) == 64, "wire");
static_assert(sizeof(struct et_plugin_output) == 80, "wire");
static_assert(offsetof(struct et_plugin_done, outputs) == 288, "wire");
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
/* Receive one packet, waiting for it unless @may_wait is 0. The number of bytes (at least a header's, and what the
 * header says), 0 when the peer is gone, negative errno; -EBADMSG for a packet that is none. *ret_fd is -1 or the
 * caller's; -1, too, if one came and this process has no room for it. */
int et_plugin_receive(int socket, void *packet, size_t room, int *ret_fd, int may_wait);
/* A memory file of @n_bytes, sealed against changing size; negative errno. */
int et_plugin_memory(const char *name, uint64_t n_bytes);
/* And against writing, when everybody who may write has unmapped it. */
int et_plugin_memory_seal(int fd);

#endif
