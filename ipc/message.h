/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: the contents of a packet, as plain structs. The wire format is inferd.proto, which has the meaning of each
 * field. The structs here use the same names, so that both can be read side by side.
 *
 * Decoding checks everything that a message alone can tell: strings are bounded valid UTF-8 without a NUL inside,
 * arrays are bounded, enumerations have known values. The daemon checks the rest (whether a region exists, whether a
 * shape fits). Decoding takes memory only from the codec's pool, at most INF_DECODED_BASE + INF_DECODED_PER_BYTE bytes
 * per received byte, so a small packet cannot cause a large allocation.
 *
 * Decoded strings are never NULL; an absent string is "". For encoding NULL means "". */
#ifndef IPC_MESSAGE_H
#define IPC_MESSAGE_H

#include "runtime/base/alloc.h"
#include "runtime/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	INF_PROTOCOL = 1,        /* the newest version that this code speaks */
	INF_PROTOCOL_OLDEST = 1, /* and the oldest */
	INF_MAX_PACKET = 64 * 1024,
	INF_MAX_PACKET_FDS = 16,
	INF_MAX_DIMS = 16,
	INF_MAX_LABELS = 65536,       /* of an output */
	INF_MAX_CHANNELS = 4,         /* of an image */
	INF_MAX_SLOTS = 1024,         /* inputs or outputs of a Method */
	INF_MAX_NAME = 255,           /* bytes of the name of a model, method, backend, region or client */
	INF_MAX_TEXT = 1023,          /* bytes of a sentence */
	INF_MAX_STRINGS = 256 * 1024, /* bytes of all strings together that a Method returns */
	INF_MAX_LIST = 100000,        /* entries of a list that the daemon sends */
	INF_MAX_PROFILE = 32 * 1024 * 1024,
	INF_MAX_ATTACHED = 64 * 1024 * 1024,
	INF_DECODED_BASE = 128 * 1024,
	INF_DECODED_PER_BYTE = 32,
};

enum inf_status {
	INF_OK = 0,
	INF_CANCELLED = 1,
	INF_UNKNOWN = 2,
	INF_INVALID_ARGUMENT = 3,
	INF_NOT_FOUND = 5,
	INF_PERMISSION_DENIED = 7,
	INF_RESOURCE_EXHAUSTED = 8,
	INF_FAILED_PRECONDITION = 9,
	INF_UNIMPLEMENTED = 12,
	INF_INTERNAL = 13,
	INF_UNAVAILABLE = 14,
	INF_BUSY = 32,
	INF_MISSED_DEADLINE = 33,
	INF_STATE_LOST = 34,
	INF_BACKEND_CRASHED = 35,
};
/* "invalid argument", "missed deadline" … NULL for an unknown number. */
const char *inf_status_text(int status);

enum inf_priority {
	INF_INTERACTIVE = 0,
	INF_REALTIME = 1,
	INF_BATCH = 2,
	INF_IDLE = 3,
};

/* ---- session ---- */

struct inf_hello {
	uint32_t protocol;
	const char *client_name;
	uint32_t weight;
	uint32_t oldest_protocol;
	bool hears_ends;
};
struct inf_hello_reply {
	uint32_t protocol;
	const char *server_name;
	const char *server_version;
	uint32_t max_requests_in_flight;
	uint32_t tensor_alignment;
	uint32_t weight;
	bool has_presence;
};
struct inf_server_metadata {
	const char *name;
	const char *version;
	size_t n_extensions;
	const char *const *extensions;
};

/* ---- models ---- */

struct inf_model_ready_request {
	const char *name;
	const char *version;
};
struct inf_model_ready {
	bool ready;
};
struct inf_model_metadata_request {
	const char *name;
	const char *version;
	const char *method;
};
struct inf_tensor_metadata {
	const char *name;
	const char *datatype;
	size_t n_shape;
	const int64_t *shape;
	size_t n_dim_order;
	const uint32_t *dim_order;
	uint64_t byte_size;
	bool dynamic;
	bool scalar;
	bool constant;
	size_t n_text;
	const uint8_t *text;
	size_t n_labels;
	const char *const *labels;
	const char *layout;
	const char *colour;
	size_t n_scale;
	const double *scale;
	size_t n_offset;
	const double *offset;
};
struct inf_model_metadata {
	const char *name;
	size_t n_versions;
	const char *const *versions;
	const char *platform;
	size_t n_inputs;
	const struct inf_tensor_metadata *inputs;
	size_t n_outputs;
	const struct inf_tensor_metadata *outputs;
	size_t n_methods;
	const char *const *methods;
	const char *backend;
	bool stateful;
};
struct inf_repository_index_request {
	const char *repository_name;
	bool ready;
};
struct inf_model_index {
	const char *name;
	const char *version;
	const char *state;
	const char *reason;
	const char *backend;
	uint64_t memory_bytes;
	size_t n_files;
	const char *const *files;
	bool serves;
	const char *file;
	const char *digest;
	const char *note;
	const char *passed_over;
};
struct inf_repository_index {
	size_t n_models;
	const struct inf_model_index *models;
	const char *folder;
};
struct inf_repository_model { /* load and unload */
	const char *repository_name;
	const char *model_name;
	const char *version; /* load */
};
struct inf_statistic_duration {
	uint64_t count;
	uint64_t ns;
};
struct inf_infer_statistics {
	struct inf_statistic_duration success;
	struct inf_statistic_duration fail;
	struct inf_statistic_duration queue;
	struct inf_statistic_duration compute_input;
	struct inf_statistic_duration compute_infer;
	struct inf_statistic_duration compute_output;
};
struct inf_model_stats {
	const char *name;
	const char *version;
	uint64_t last_inference;
	uint64_t inference_count;
	uint64_t execution_count;
	struct inf_infer_statistics inference_stats;
	uint64_t copied_bytes;
};
struct inf_model_statistics_request {
	const char *name;
	const char *version;
};
struct inf_model_statistics {
	size_t n_model_stats;
	const struct inf_model_stats *model_stats;
};

/* ---- status ---- */

struct inf_program_status {
	const char *name;
	const char *version;
	const char *backend;
	uint32_t methods;
	uint64_t file_bytes;
	uint64_t plan_bytes;
	uint64_t state_bytes;
	uint64_t frame_bytes;
	uint64_t requests;
	uint64_t copied_bytes;
	uint64_t median_ns;
	uint64_t instance_bytes;
	uint32_t cores;
	const char *cores_reason;
	const char *file;
	const char *digest;
	const char *note;
};
struct inf_client_status {
	uint64_t session;
	uint32_t pid;
	uint32_t uid;
	const char *name;
	uint32_t methods;
	uint32_t regions;
	uint64_t region_bytes;
	uint64_t requests;
	uint32_t in_flight;
};
struct inf_queue_status {
	const char *name;
	uint32_t workers;
	uint32_t running;
	uint32_t waiting;
	uint64_t busy_ns;
	uint64_t completed;
	uint32_t stuck;
	uint32_t spares;
	const char *device, *driver, *features;
	uint64_t device_bytes;
};
struct inf_host_status {
	const char *backend;
	bool own;
	uint32_t uid;
	uint32_t pid;
	uint32_t starts;
	uint32_t crashes;
	uint64_t requests;
	uint64_t pause_ns;
	const char *reason;
};
struct inf_limit_status {
	const char *name;
	uint64_t used;
	uint64_t limit;
};
struct inf_user_status {
	uint32_t uid;
	uint32_t weight;
	const char *priority;
	size_t n_limits;
	const struct inf_limit_status *limits;
};
struct inf_server_status {
	const char *version;
	uint64_t uptime_ns;
	uint64_t resident_bytes;
	size_t n_programs;
	const struct inf_program_status *programs;
	size_t n_clients;
	const struct inf_client_status *clients;
	size_t n_queues;
	const struct inf_queue_status *queues;
	uint64_t requests;
	uint64_t failed;
	uint64_t copied_bytes;
	size_t n_backends;
	const char *const *backends;
	size_t n_backends_missing;
	const char *const *backends_missing;
	size_t n_warnings;
	const char *const *warnings;
	size_t n_hosts;
	const struct inf_host_status *hosts;
	size_t n_users;
	const struct inf_user_status *users;
	uint64_t memory_used;
	uint64_t memory_budget;
};

/* ---- Methods ---- */

struct inf_method_open {
	const char *model;
	const char *version;
	const char *method;
	const char *backend;
	bool from_fd;
	uint32_t data_fds;
	uint64_t share_with;
};
struct inf_method_opened {
	uint64_t method;
	size_t n_inputs;
	const struct inf_tensor_metadata *inputs;
	size_t n_outputs;
	const struct inf_tensor_metadata *outputs;
	const char *version;
	const char *backend;
	bool stateful;
};
struct inf_method_ref { /* MethodClose, MethodReset */
	uint64_t method;
};

/* ---- regions ---- */

struct inf_region_create {
	uint64_t byte_size;
};
struct inf_region_created {
	uint64_t region;
	uint64_t byte_size;
};
struct inf_region_register {
	const char *name;
	const char *key;
	uint64_t offset;
	uint64_t byte_size;
};
struct inf_region_unregister {
	const char *name;
	uint64_t region;
};
struct inf_region_status_request {
	const char *name;
};
struct inf_region_info {
	const char *name;
	const char *key;
	uint64_t offset;
	uint64_t byte_size;
	uint64_t region;
};
struct inf_region_status {
	size_t n_regions;
	const struct inf_region_info *regions;
};

/* ---- bindings and requests ---- */

enum inf_scalar_kind {
	INF_SCALAR_NONE,
	INF_SCALAR_INT,
	INF_SCALAR_DOUBLE,
	INF_SCALAR_BOOL,
};
struct inf_scalar {
	enum inf_scalar_kind kind;
	union {
		int64_t int_value;
		double double_value;
		bool bool_value;
	};
};
struct inf_slot {
	uint64_t region;
	uint64_t offset;
	uint64_t byte_size;
	size_t n_shape;
	const int64_t *shape;
	struct inf_scalar scalar;
};
struct inf_bind {
	uint64_t method;
	size_t n_inputs;
	const struct inf_slot *inputs;
	size_t n_outputs;
	const struct inf_slot *outputs;
};
struct inf_bound {
	uint64_t binding;
	uint32_t zero_copy;
	uint32_t copied;
};
struct inf_unbind {
	uint64_t binding;
};
struct inf_infer {
	uint64_t binding;
	enum inf_priority priority;
	uint64_t timeout_us;
	size_t n_inputs;
	const struct inf_slot *inputs;
	bool profile;
};
struct inf_output_shape {
	size_t n_shape;
	const int64_t *shape;
	struct inf_scalar scalar;
};
struct inf_inferred {
	uint64_t queue_ns;
	uint64_t run_ns;
	size_t n_outputs;
	const struct inf_output_shape *outputs;
	size_t n_profile;
	const uint8_t *profile;
};
struct inf_cancel {
	uint64_t request;
};
struct inf_backend_restart {
	const char *name;
};
struct inf_attached {
	uint64_t byte_size;
};

/* ---- the two packets ---- */

/* The field numbers of the oneof in Request. */
enum inf_request_kind {
	INF_REQUEST_UNKNOWN = 0, /* a message that this version does not know: answer INF_UNIMPLEMENTED */
	INF_REQUEST_HELLO = 2,
	INF_REQUEST_SERVER_METADATA = 3, /* no body */
	INF_REQUEST_MODEL_READY = 4,
	INF_REQUEST_MODEL_METADATA = 5,
	INF_REQUEST_REPOSITORY_INDEX = 6,
	INF_REQUEST_REPOSITORY_MODEL_LOAD = 7,
	INF_REQUEST_REPOSITORY_MODEL_UNLOAD = 8,
	INF_REQUEST_MODEL_STATISTICS = 9,
	INF_REQUEST_STATUS = 10, /* no body */
	INF_REQUEST_METHOD_OPEN = 11,
	INF_REQUEST_METHOD_CLOSE = 12,
	INF_REQUEST_METHOD_RESET = 13,
	INF_REQUEST_REGION_CREATE = 14,
	INF_REQUEST_REGION_REGISTER = 15,
	INF_REQUEST_REGION_UNREGISTER = 16,
	INF_REQUEST_REGION_STATUS = 17,
	INF_REQUEST_BIND = 18,
	INF_REQUEST_UNBIND = 19,
	INF_REQUEST_INFER = 20,
	INF_REQUEST_CANCEL = 21,
	INF_REQUEST_BACKEND_RESTART = 22,
};
/* "MethodOpen", … for logs; "unknown" for any other number. */
const char *inf_request_kind_name(enum inf_request_kind kind);
struct inf_request {
	uint64_t id;
	enum inf_request_kind kind;
	union {
		struct inf_hello hello;
		struct inf_model_ready_request model_ready;
		struct inf_model_metadata_request model_metadata;
		struct inf_repository_index_request repository_index;
		struct inf_repository_model repository_model_load;
		struct inf_repository_model repository_model_unload;
		struct inf_model_statistics_request model_statistics;
		struct inf_method_open method_open;
		struct inf_method_ref method_close;
		struct inf_method_ref method_reset;
		struct inf_region_create region_create;
		struct inf_region_register region_register;
		struct inf_region_unregister region_unregister;
		struct inf_region_status_request region_status;
		struct inf_bind bind;
		struct inf_unbind unbind;
		struct inf_infer infer;
		struct inf_cancel cancel;
		struct inf_backend_restart backend_restart;
	};
};

/* The number of descriptors that must travel beside the request. */
size_t inf_request_n_fds(const struct inf_request *request);

/* The field numbers of the oneof in Reply. */
enum inf_reply_kind {
	INF_REPLY_NONE = 0, /* only the status; or a body that this version does not know */
	INF_REPLY_HELLO = 4,
	INF_REPLY_SERVER_METADATA = 5,
	INF_REPLY_MODEL_READY = 6,
	INF_REPLY_MODEL_METADATA = 7,
	INF_REPLY_REPOSITORY_INDEX = 8,
	INF_REPLY_MODEL_STATISTICS = 9,
	INF_REPLY_SERVER_STATUS = 10,
	INF_REPLY_METHOD_OPENED = 11,
	INF_REPLY_REGION_CREATED = 12,
	INF_REPLY_REGION_STATUS = 13,
	INF_REPLY_BOUND = 14,
	INF_REPLY_INFERRED = 15,
	INF_REPLY_ATTACHED = 16, /* made by inf_message_encode_reply, resolved by inf_message_decode_attached */
};

struct inf_reply {
	uint64_t id;
	enum inf_status status; /* a number that this version does not know becomes INF_UNKNOWN */
	const char *error;
	bool shutting_down, goes_on;
	enum inf_reply_kind kind;
	union {
		struct inf_hello_reply hello;
		struct inf_server_metadata server_metadata;
		struct inf_model_ready model_ready;
		struct inf_model_metadata model_metadata;
		struct inf_repository_index repository_index;
		struct inf_model_statistics model_statistics;
		struct inf_server_status server_status;
		struct inf_method_opened method_opened;
		struct inf_region_created region_created;
		struct inf_region_status region_status;
		struct inf_bound bound;
		struct inf_inferred inferred;
		struct inf_attached attached;
	};
};

/* The version of the protocol that both ends speak: the newest one in both ranges. 0: there is none. */
uint32_t inf_protocol_choose(const struct inf_hello *hello);

/* ---- coding ---- */

/* The working memory of one thread. Each call below empties it first, so the result of a decoding call is valid
 * until the next call with the same codec. If a reply quotes its request, use one codec for decoding and one for
 * encoding. After the first few messages no call allocates. */
struct inf_codec {
	struct et_pool pool;
	size_t n_left; /* bytes that the current message may still take */
	bool refused;  /* the allocator failed */
};
void inf_codec_init(struct inf_codec *codec, const struct et_allocator *allocator);
/* All zeros is fine. */
void inf_codec_deinit(struct inf_codec *codec);

enum {
	/* Not a valid message, or one that needs too much memory: end the session. */
	INF_MESSAGE_E_MALFORMED = 1,
	/* A field is out of its bounds; @diag names it. Decoding: id and kind are set, so answer
	 * INF_INVALID_ARGUMENT. Encoding: the caller passed a bad field. */
	INF_MESSAGE_E_INVALID = 2,
};

/* Decode a packet. Answers: 0, the errors above, -ENOMEM if the allocator fails. */
int inf_message_decode_request(struct inf_request *ret_request, const void *packet, size_t n_bytes,
	struct inf_codec *codec, struct et_diag *diag);
int inf_message_decode_reply(struct inf_reply *ret_reply, const void *packet, size_t n_bytes, struct inf_codec *codec,
	struct et_diag *diag);
/* Decode the reply inside the memfd that came beside an INF_REPLY_ATTACHED reply. @fd stays the caller's. */
int inf_message_decode_attached(struct inf_reply *ret_reply, const struct inf_reply *outer, int fd,
	struct inf_codec *codec, struct et_diag *diag);

/* Encode into @packet, which has room for INF_MAX_PACKET bytes. INF_MESSAGE_E_INVALID if the request is larger, or a
 * field is out of bounds. */
int inf_message_encode_request(const struct inf_request *request, void *packet, size_t *ret_n_bytes,
	struct inf_codec *codec, struct et_diag *diag);
/* Encode a reply. It is never refused: overlong strings are cut, bytes that are not valid UTF-8 become '?'. A reply
 * that does not fit a packet is put into a sealed memfd; @packet then holds the Attached reply, and *ret_fd (else
 * -1) is the descriptor to send beside it, the caller's to close. A reply that already has a descriptor to send is
 * always small. Negative errno: no memory, no descriptor; -EOVERFLOW: a list is longer than INF_MAX_LIST. */
int inf_message_encode_reply(const struct inf_reply *reply, void *packet, size_t *ret_n_bytes, int *ret_fd,
	struct inf_codec *codec);

#endif
