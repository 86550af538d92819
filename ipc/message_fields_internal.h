/* SPDX-License-Identifier: BSD-3-Clause */
/* Every field of every message, once: its offset in our struct, its offset in the generated struct, and its bound.
 *
 * Part of message.c; no other file includes it. inferd ignores a field of inferd.proto that has no row here.
 * test_message encodes and decodes every row. */
#ifndef IPC_MESSAGE_FIELDS_INTERNAL_H
#define IPC_MESSAGE_FIELDS_INTERNAL_H

enum field_kind {
	FIELD_NUMBER, /* copied; max is its size */
	FIELD_BOOL,
	FIELD_ENUM, /* 0 … max */
	FIELD_STRING,
	FIELD_SCALAR, /* the oneof of int_value, double_value, bool_value; max is the first one's number */
	FIELD_MESSAGE,
	FIELD_BYTES, /* their count in n_NAME; in the generated struct both are one struct */
	/* All later kinds are arrays with their count in n_NAME. */
	FIELD_NUMBERS, /* 4 or 8 bytes each, equal on both sides */
	FIELD_STRINGS,
	FIELD_MESSAGES,
};

struct field {
	const char *name;
	enum field_kind kind;
	uint16_t ours, theirs;     /* offsets */
	uint16_t ours_n, theirs_n; /* offsets of an array's count; SCALAR: theirs_n is the offset of the oneof's case */
	uint32_t max;              /* bytes of a string or of bytes, entries of an array */
	const struct shape *message;
};

/* A message: its fields. */
struct shape {
	const ProtobufCMessageDescriptor *descriptor;
	size_t n_ours; /* size of our struct */
	const struct field *fields;
	size_t n_fields;
};

#define SIZE_OF(type, member) sizeof(((type *)0)->member)
/* A constant 0; does not compile if @condition is false. */
#define CHECKED(condition) (0 * sizeof(char[(condition) ? 1 : -1]))

#define FIELD(kind_, member, ...)                   \
	{ .name = #member,                          \
		.kind = kind_,                      \
		.ours = offsetof(OURS, member),     \
		.theirs = offsetof(THEIRS, member), \
		__VA_ARGS__ }
#define COUNT(member) .ours_n = offsetof(OURS, n_##member), .theirs_n = offsetof(THEIRS, n_##member)
#define NUMBER(member)              \
	FIELD(FIELD_NUMBER, member, \
		.max = SIZE_OF(OURS, member) + CHECKED(SIZE_OF(OURS, member) == SIZE_OF(THEIRS, member)))
#define BOOL(member)         FIELD(FIELD_BOOL, member, .max = 1)
#define ENUM(member, max_)   FIELD(FIELD_ENUM, member, .max = max_)
#define STRING(member, max_) FIELD(FIELD_STRING, member, .max = max_)
#define SCALAR(member, first_number)                         \
	{ .name = #member,                                   \
		.kind = FIELD_SCALAR,                        \
		.ours = offsetof(OURS, member),              \
		.theirs = offsetof(THEIRS, int_value),       \
		.theirs_n = offsetof(THEIRS, member##_case), \
		.max = first_number }
#define BYTES(member, max_) FIELD(FIELD_BYTES, member, .ours_n = offsetof(OURS, n_##member), .max = max_)
#define NUMBERS(member, max_)                       \
	FIELD(FIELD_NUMBERS, member, COUNT(member), \
		.max = max_ + CHECKED(sizeof(*((OURS *)0)->member) == sizeof(*((THEIRS *)0)->member)))
#define STRINGS(member, max_)         FIELD(FIELD_STRINGS, member, COUNT(member), .max = max_)
#define MESSAGE(member, shape)        FIELD(FIELD_MESSAGE, member, .message = shape)
#define MESSAGES(member, max_, shape) FIELD(FIELD_MESSAGES, member, COUNT(member), .max = max_, .message = shape)

#define SHAPE(ours, theirs)                                                                                            \
	static const struct shape ours##_shape = { &inferd__wire__##theirs##__descriptor, sizeof(OURS), ours##_fields, \
		ET_ARRAY_LEN(ours##_fields) }
#define SHAPE_EMPTY(ours, theirs) \
	static const struct shape ours##_shape = { &inferd__wire__##theirs##__descriptor, 0, NULL, 0 }

#define OURS   struct inf_hello
#define THEIRS Inferd__Wire__Hello
static const struct field hello_fields[] = {
	NUMBER(protocol),
	STRING(client_name, INF_MAX_NAME),
	NUMBER(weight),
	NUMBER(oldest_protocol),
	BOOL(hears_ends),
};
SHAPE(hello, hello);
#undef OURS
#undef THEIRS

#define OURS   struct inf_hello_reply
#define THEIRS Inferd__Wire__HelloReply
static const struct field hello_reply_fields[] = {
	NUMBER(protocol),
	STRING(server_name, INF_MAX_NAME),
	STRING(server_version, INF_MAX_NAME),
	NUMBER(max_requests_in_flight),
	NUMBER(tensor_alignment),
	NUMBER(weight),
	BOOL(has_presence),
};
SHAPE(hello_reply, hello_reply);
#undef OURS
#undef THEIRS

SHAPE_EMPTY(server_metadata_request, server_metadata_request);

#define OURS   struct inf_server_metadata
#define THEIRS Inferd__Wire__ServerMetadataResponse
static const struct field server_metadata_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
	STRINGS(extensions, INF_MAX_LIST),
};
SHAPE(server_metadata, server_metadata_response);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_ready_request
#define THEIRS Inferd__Wire__ModelReadyRequest
static const struct field model_ready_request_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
};
SHAPE(model_ready_request, model_ready_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_ready
#define THEIRS Inferd__Wire__ModelReadyResponse
static const struct field model_ready_fields[] = {
	BOOL(ready),
};
SHAPE(model_ready, model_ready_response);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_metadata_request
#define THEIRS Inferd__Wire__ModelMetadataRequest
static const struct field model_metadata_request_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
	STRING(method, INF_MAX_NAME),
};
SHAPE(model_metadata_request, model_metadata_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_tensor_metadata
#define THEIRS Inferd__Wire__TensorMetadata
static const struct field tensor_metadata_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(datatype, INF_MAX_NAME),
	NUMBERS(shape, INF_MAX_DIMS),
	NUMBERS(dim_order, INF_MAX_DIMS),
	NUMBER(byte_size),
	BOOL(dynamic),
	BOOL(scalar),
	BOOL(constant),
	BYTES(text, INF_MAX_STRINGS),
	STRINGS(labels, INF_MAX_LABELS),
	STRING(layout, INF_MAX_NAME),
	STRING(colour, INF_MAX_NAME),
	NUMBERS(scale, INF_MAX_CHANNELS),
	NUMBERS(offset, INF_MAX_CHANNELS),
};
SHAPE(tensor_metadata, tensor_metadata);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_metadata
#define THEIRS Inferd__Wire__ModelMetadataResponse
static const struct field model_metadata_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRINGS(versions, INF_MAX_LIST),
	STRING(platform, INF_MAX_NAME),
	MESSAGES(inputs, INF_MAX_SLOTS, &tensor_metadata_shape),
	MESSAGES(outputs, INF_MAX_SLOTS, &tensor_metadata_shape),
	STRINGS(methods, INF_MAX_LIST),
	STRING(backend, INF_MAX_NAME),
	BOOL(stateful),
};
SHAPE(model_metadata, model_metadata_response);
#undef OURS
#undef THEIRS

#define OURS   struct inf_repository_index_request
#define THEIRS Inferd__Wire__RepositoryIndexRequest
static const struct field repository_index_request_fields[] = {
	STRING(repository_name, INF_MAX_NAME),
	BOOL(ready),
};
SHAPE(repository_index_request, repository_index_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_index
#define THEIRS Inferd__Wire__RepositoryIndexResponse__ModelIndex
static const struct field model_index_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
	STRING(state, INF_MAX_NAME),
	STRING(reason, INF_MAX_TEXT),
	STRING(backend, INF_MAX_NAME),
	NUMBER(memory_bytes),
	STRINGS(files, INF_MAX_LIST),
	BOOL(serves),
	STRING(file, INF_MAX_TEXT),
	STRING(digest, INF_MAX_NAME),
	STRING(note, INF_MAX_TEXT),
	STRING(passed_over, INF_MAX_TEXT),
};
SHAPE(model_index, repository_index_response__model_index);
#undef OURS
#undef THEIRS

#define OURS   struct inf_repository_index
#define THEIRS Inferd__Wire__RepositoryIndexResponse
static const struct field repository_index_fields[] = {
	MESSAGES(models, INF_MAX_LIST, &model_index_shape),
	STRING(folder, INF_MAX_TEXT),
};
SHAPE(repository_index, repository_index_response);
#undef OURS
#undef THEIRS

#define OURS   struct inf_repository_model
#define THEIRS Inferd__Wire__RepositoryModelLoadRequest
static const struct field repository_model_load_fields[] = {
	STRING(repository_name, INF_MAX_NAME),
	STRING(model_name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
};
SHAPE(repository_model_load, repository_model_load_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_repository_model
#define THEIRS Inferd__Wire__RepositoryModelUnloadRequest
static const struct field repository_model_unload_fields[] = {
	STRING(repository_name, INF_MAX_NAME),
	STRING(model_name, INF_MAX_NAME),
};
SHAPE(repository_model_unload, repository_model_unload_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_backend_restart
#define THEIRS Inferd__Wire__BackendRestart
static const struct field backend_restart_fields[] = {
	STRING(name, INF_MAX_NAME),
};
SHAPE(backend_restart, backend_restart);
#undef OURS
#undef THEIRS

#define OURS   struct inf_statistic_duration
#define THEIRS Inferd__Wire__StatisticDuration
static const struct field statistic_duration_fields[] = {
	NUMBER(count),
	NUMBER(ns),
};
SHAPE(statistic_duration, statistic_duration);
#undef OURS
#undef THEIRS

#define OURS   struct inf_infer_statistics
#define THEIRS Inferd__Wire__InferStatistics
static const struct field infer_statistics_fields[] = {
	MESSAGE(success, &statistic_duration_shape),
	MESSAGE(fail, &statistic_duration_shape),
	MESSAGE(queue, &statistic_duration_shape),
	MESSAGE(compute_input, &statistic_duration_shape),
	MESSAGE(compute_infer, &statistic_duration_shape),
	MESSAGE(compute_output, &statistic_duration_shape),
};
SHAPE(infer_statistics, infer_statistics);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_stats
#define THEIRS Inferd__Wire__ModelStatistics
static const struct field model_stats_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
	NUMBER(last_inference),
	NUMBER(inference_count),
	NUMBER(execution_count),
	MESSAGE(inference_stats, &infer_statistics_shape),
	NUMBER(copied_bytes),
};
SHAPE(model_stats, model_statistics);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_statistics_request
#define THEIRS Inferd__Wire__ModelStatisticsRequest
static const struct field model_statistics_request_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
};
SHAPE(model_statistics_request, model_statistics_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_model_statistics
#define THEIRS Inferd__Wire__ModelStatisticsResponse
static const struct field model_statistics_fields[] = {
	MESSAGES(model_stats, INF_MAX_LIST, &model_stats_shape),
};
SHAPE(model_statistics, model_statistics_response);
#undef OURS
#undef THEIRS

SHAPE_EMPTY(status_request, status_request);

#define OURS   struct inf_program_status
#define THEIRS Inferd__Wire__ProgramStatus
static const struct field program_status_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
	STRING(backend, INF_MAX_NAME),
	NUMBER(methods),
	NUMBER(file_bytes),
	NUMBER(plan_bytes),
	NUMBER(state_bytes),
	NUMBER(frame_bytes),
	NUMBER(requests),
	NUMBER(copied_bytes),
	NUMBER(median_ns),
	NUMBER(instance_bytes),
	NUMBER(cores),
	STRING(cores_reason, INF_MAX_NAME),
	STRING(file, INF_MAX_TEXT),
	STRING(digest, INF_MAX_NAME),
	STRING(note, INF_MAX_TEXT),
};
SHAPE(program_status, program_status);
#undef OURS
#undef THEIRS

#define OURS   struct inf_client_status
#define THEIRS Inferd__Wire__ClientStatus
static const struct field client_status_fields[] = {
	NUMBER(session),
	NUMBER(pid),
	NUMBER(uid),
	STRING(name, INF_MAX_NAME),
	NUMBER(methods),
	NUMBER(regions),
	NUMBER(region_bytes),
	NUMBER(requests),
	NUMBER(in_flight),
};
SHAPE(client_status, client_status);
#undef OURS
#undef THEIRS

#define OURS   struct inf_queue_status
#define THEIRS Inferd__Wire__QueueStatus
static const struct field queue_status_fields[] = {
	STRING(name, INF_MAX_NAME),
	NUMBER(workers),
	NUMBER(running),
	NUMBER(waiting),
	NUMBER(busy_ns),
	NUMBER(completed),
	NUMBER(stuck),
	NUMBER(spares),
	STRING(device, INF_MAX_NAME),
	STRING(driver, INF_MAX_NAME),
	STRING(features, INF_MAX_NAME),
	NUMBER(device_bytes),
};
SHAPE(queue_status, queue_status);
#undef OURS
#undef THEIRS

#define OURS   struct inf_host_status
#define THEIRS Inferd__Wire__HostStatus
static const struct field host_status_fields[] = {
	STRING(backend, INF_MAX_NAME),
	BOOL(own),
	NUMBER(uid),
	NUMBER(pid),
	NUMBER(starts),
	NUMBER(crashes),
	NUMBER(requests),
	NUMBER(pause_ns),
	STRING(reason, INF_MAX_TEXT),
};
SHAPE(host_status, host_status);
#undef OURS
#undef THEIRS

#define OURS   struct inf_limit_status
#define THEIRS Inferd__Wire__LimitStatus
static const struct field limit_status_fields[] = {
	STRING(name, INF_MAX_NAME),
	NUMBER(used),
	NUMBER(limit),
};
SHAPE(limit_status, limit_status);
#undef OURS
#undef THEIRS

#define OURS   struct inf_user_status
#define THEIRS Inferd__Wire__UserStatus
static const struct field user_status_fields[] = {
	NUMBER(uid),
	NUMBER(weight),
	STRING(priority, INF_MAX_NAME),
	MESSAGES(limits, INF_MAX_LIST, &limit_status_shape),
};
SHAPE(user_status, user_status);
#undef OURS
#undef THEIRS

#define OURS   struct inf_server_status
#define THEIRS Inferd__Wire__StatusResponse
static const struct field server_status_fields[] = {
	STRING(version, INF_MAX_NAME),
	NUMBER(uptime_ns),
	NUMBER(resident_bytes),
	MESSAGES(programs, INF_MAX_LIST, &program_status_shape),
	MESSAGES(clients, INF_MAX_LIST, &client_status_shape),
	MESSAGES(queues, INF_MAX_LIST, &queue_status_shape),
	NUMBER(requests),
	NUMBER(failed),
	NUMBER(copied_bytes),
	STRINGS(backends, INF_MAX_LIST),
	STRINGS(backends_missing, INF_MAX_LIST),
	STRINGS(warnings, INF_MAX_LIST),
	MESSAGES(hosts, INF_MAX_LIST, &host_status_shape),
	MESSAGES(users, INF_MAX_LIST, &user_status_shape),
	NUMBER(memory_used),
	NUMBER(memory_budget),
};
SHAPE(server_status, status_response);
#undef OURS
#undef THEIRS

#define OURS   struct inf_method_open
#define THEIRS Inferd__Wire__MethodOpen
static const struct field method_open_fields[] = {
	STRING(model, INF_MAX_NAME),
	STRING(version, INF_MAX_NAME),
	STRING(method, INF_MAX_NAME),
	STRING(backend, INF_MAX_NAME),
	BOOL(from_fd),
	NUMBER(data_fds),
	NUMBER(share_with),
};
SHAPE(method_open, method_open);
#undef OURS
#undef THEIRS

#define OURS   struct inf_method_opened
#define THEIRS Inferd__Wire__MethodOpened
static const struct field method_opened_fields[] = {
	NUMBER(method),
	MESSAGES(inputs, INF_MAX_SLOTS, &tensor_metadata_shape),
	MESSAGES(outputs, INF_MAX_SLOTS, &tensor_metadata_shape),
	STRING(version, INF_MAX_NAME),
	STRING(backend, INF_MAX_NAME),
	BOOL(stateful),
};
SHAPE(method_opened, method_opened);
#undef OURS
#undef THEIRS

#define OURS   struct inf_method_ref
#define THEIRS Inferd__Wire__MethodClose
static const struct field method_close_fields[] = {
	NUMBER(method),
};
SHAPE(method_close, method_close);
#undef OURS
#undef THEIRS

#define OURS   struct inf_method_ref
#define THEIRS Inferd__Wire__MethodReset
static const struct field method_reset_fields[] = {
	NUMBER(method),
};
SHAPE(method_reset, method_reset);
#undef OURS
#undef THEIRS

#define OURS   struct inf_region_create
#define THEIRS Inferd__Wire__RegionCreate
static const struct field region_create_fields[] = {
	NUMBER(byte_size),
};
SHAPE(region_create, region_create);
#undef OURS
#undef THEIRS

#define OURS   struct inf_region_created
#define THEIRS Inferd__Wire__RegionCreated
static const struct field region_created_fields[] = {
	NUMBER(region),
	NUMBER(byte_size),
};
SHAPE(region_created, region_created);
#undef OURS
#undef THEIRS

#define OURS   struct inf_region_register
#define THEIRS Inferd__Wire__SystemSharedMemoryRegisterRequest
static const struct field region_register_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(key, INF_MAX_NAME),
	NUMBER(offset),
	NUMBER(byte_size),
};
SHAPE(region_register, system_shared_memory_register_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_region_unregister
#define THEIRS Inferd__Wire__SystemSharedMemoryUnregisterRequest
static const struct field region_unregister_fields[] = {
	STRING(name, INF_MAX_NAME),
	NUMBER(region),
};
SHAPE(region_unregister, system_shared_memory_unregister_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_region_status_request
#define THEIRS Inferd__Wire__SystemSharedMemoryStatusRequest
static const struct field region_status_request_fields[] = {
	STRING(name, INF_MAX_NAME),
};
SHAPE(region_status_request, system_shared_memory_status_request);
#undef OURS
#undef THEIRS

#define OURS   struct inf_region_info
#define THEIRS Inferd__Wire__SystemSharedMemoryStatusResponse__RegionStatus
static const struct field region_info_fields[] = {
	STRING(name, INF_MAX_NAME),
	STRING(key, INF_MAX_NAME),
	NUMBER(offset),
	NUMBER(byte_size),
	NUMBER(region),
};
SHAPE(region_info, system_shared_memory_status_response__region_status);
#undef OURS
#undef THEIRS

#define OURS   struct inf_region_status
#define THEIRS Inferd__Wire__SystemSharedMemoryStatusResponse
static const struct field region_status_fields[] = {
	MESSAGES(regions, INF_MAX_LIST, &region_info_shape),
};
SHAPE(region_status, system_shared_memory_status_response);
#undef OURS
#undef THEIRS

#define OURS   struct inf_slot
#define THEIRS Inferd__Wire__Slot
static const struct field slot_fields[] = {
	NUMBER(region),
	NUMBER(offset),
	NUMBER(byte_size),
	NUMBERS(shape, INF_MAX_DIMS),
	SCALAR(scalar, 5),
};
SHAPE(slot, slot);
#undef OURS
#undef THEIRS

#define OURS   struct inf_bind
#define THEIRS Inferd__Wire__Bind
static const struct field bind_fields[] = {
	NUMBER(method),
	MESSAGES(inputs, INF_MAX_SLOTS, &slot_shape),
	MESSAGES(outputs, INF_MAX_SLOTS, &slot_shape),
};
SHAPE(bind, bind);
#undef OURS
#undef THEIRS

#define OURS   struct inf_bound
#define THEIRS Inferd__Wire__Bound
static const struct field bound_fields[] = {
	NUMBER(binding),
	NUMBER(zero_copy),
	NUMBER(copied),
};
SHAPE(bound, bound);
#undef OURS
#undef THEIRS

#define OURS   struct inf_unbind
#define THEIRS Inferd__Wire__Unbind
static const struct field unbind_fields[] = {
	NUMBER(binding),
};
SHAPE(unbind, unbind);
#undef OURS
#undef THEIRS

#define OURS   struct inf_infer
#define THEIRS Inferd__Wire__Infer
static const struct field infer_fields[] = {
	NUMBER(binding),
	ENUM(priority, INF_IDLE),
	NUMBER(timeout_us),
	MESSAGES(inputs, INF_MAX_SLOTS, &slot_shape),
	BOOL(profile),
};
SHAPE(infer, infer);
#undef OURS
#undef THEIRS

#define OURS   struct inf_output_shape
#define THEIRS Inferd__Wire__OutputShape
static const struct field output_shape_fields[] = {
	NUMBERS(shape, INF_MAX_DIMS),
	SCALAR(scalar, 2),
};
SHAPE(output_shape, output_shape);
#undef OURS
#undef THEIRS

#define OURS   struct inf_inferred
#define THEIRS Inferd__Wire__Inferred
static const struct field inferred_fields[] = {
	NUMBER(queue_ns),
	NUMBER(run_ns),
	MESSAGES(outputs, INF_MAX_SLOTS, &output_shape_shape),
	BYTES(profile, INF_MAX_PROFILE),
};
SHAPE(inferred, inferred);
#undef OURS
#undef THEIRS

#define OURS   struct inf_cancel
#define THEIRS Inferd__Wire__Cancel
static const struct field cancel_fields[] = {
	NUMBER(request),
};
SHAPE(cancel, cancel);
#undef OURS
#undef THEIRS

#define OURS   struct inf_attached
#define THEIRS Inferd__Wire__Attached
static const struct field attached_fields[] = {
	NUMBER(byte_size),
};
SHAPE(attached, attached);
#undef OURS
#undef THEIRS
/* ---- the bodies of the two packets, by their numbers ---- */

static const struct shape *const request_bodies[] = {
	[INF_REQUEST_HELLO] = &hello_shape,
	[INF_REQUEST_SERVER_METADATA] = &server_metadata_request_shape,
	[INF_REQUEST_MODEL_READY] = &model_ready_request_shape,
	[INF_REQUEST_MODEL_METADATA] = &model_metadata_request_shape,
	[INF_REQUEST_REPOSITORY_INDEX] = &repository_index_request_shape,
	[INF_REQUEST_REPOSITORY_MODEL_LOAD] = &repository_model_load_shape,
	[INF_REQUEST_REPOSITORY_MODEL_UNLOAD] = &repository_model_unload_shape,
	[INF_REQUEST_MODEL_STATISTICS] = &model_statistics_request_shape,
	[INF_REQUEST_STATUS] = &status_request_shape,
	[INF_REQUEST_METHOD_OPEN] = &method_open_shape,
	[INF_REQUEST_METHOD_CLOSE] = &method_close_shape,
	[INF_REQUEST_METHOD_RESET] = &method_reset_shape,
	[INF_REQUEST_REGION_CREATE] = &region_create_shape,
	[INF_REQUEST_REGION_REGISTER] = &region_register_shape,
	[INF_REQUEST_REGION_UNREGISTER] = &region_unregister_shape,
	[INF_REQUEST_REGION_STATUS] = &region_status_request_shape,
	[INF_REQUEST_BIND] = &bind_shape,
	[INF_REQUEST_UNBIND] = &unbind_shape,
	[INF_REQUEST_INFER] = &infer_shape,
	[INF_REQUEST_CANCEL] = &cancel_shape,
	[INF_REQUEST_BACKEND_RESTART] = &backend_restart_shape,
};

static const struct shape *const reply_bodies[] = {
	[INF_REPLY_HELLO] = &hello_reply_shape,
	[INF_REPLY_SERVER_METADATA] = &server_metadata_shape,
	[INF_REPLY_MODEL_READY] = &model_ready_shape,
	[INF_REPLY_MODEL_METADATA] = &model_metadata_shape,
	[INF_REPLY_REPOSITORY_INDEX] = &repository_index_shape,
	[INF_REPLY_MODEL_STATISTICS] = &model_statistics_shape,
	[INF_REPLY_SERVER_STATUS] = &server_status_shape,
	[INF_REPLY_METHOD_OPENED] = &method_opened_shape,
	[INF_REPLY_REGION_CREATED] = &region_created_shape,
	[INF_REPLY_REGION_STATUS] = &region_status_shape,
	[INF_REPLY_BOUND] = &bound_shape,
	[INF_REPLY_INFERRED] = &inferred_shape,
	[INF_REPLY_ATTACHED] = &attached_shape,
};

#endif
