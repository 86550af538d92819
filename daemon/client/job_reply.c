/* SPDX-License-Identifier: BSD-3-Clause */
/* Replies of jobs. What a reply refers to lies in the binding (shapes and sizes of the outputs) or ends with this call
 * (the profile), so that a reply needs no memory of its own. */
#include "daemon/client/job_reply.h"

#include "daemon/client/binding.h"
#include "daemon/client/job_profile.h"
#include "daemon/context.h"
#include "runtime/platform/platform.h"

static void write_outputs(struct inf_binding *b)
{
	for (uint32_t i = 0; i < b->n_outputs; i++) {
		const struct et_io *io = &b->io[b->n_inputs + i];
		struct inf_output_shape *shape = &b->shapes[i];
		*shape = (struct inf_output_shape){ 0 };
		if (io->tag == ET_TAG_TENSOR) {
			for (size_t d = 0; d < io->n_dims; d++)
				b->dims[i][d] = io->sizes[d];
			shape->n_shape = io->n_dims;
			shape->shape = b->dims[i];
		} else if (io->tag == ET_TAG_INT) {
			shape->scalar = (struct inf_scalar){ .kind = INF_SCALAR_INT, .int_value = io->i };
		} else if (io->tag == ET_TAG_DOUBLE) {
			shape->scalar = (struct inf_scalar){ .kind = INF_SCALAR_DOUBLE, .double_value = io->d };
		} else if (io->tag == ET_TAG_BOOL) {
			shape->scalar = (struct inf_scalar){ .kind = INF_SCALAR_BOOL, .bool_value = io->b };
		}
	}
}

void inf_job_write_reply(struct inf_binding *b, enum inf_status status, const char *error, uint64_t queue_ns,
	struct inf_reply_buffer *buffer)
{
	const struct inf_job *job = &b->job;
	struct inf_reply reply = { .id = job->id,
		.status = status,
		.error = error,
		.shutting_down = inf_context_ends(b->method->context, status) };
	struct et_fbw writer;
	et_fbw_init(&writer, et_platform_allocator());
	if (status == INF_OK) {
		reply.kind = INF_REPLY_INFERRED;
		reply.inferred.queue_ns = queue_ns;
		reply.inferred.run_ns = job->run_ns;
		if (b->shapes) {
			write_outputs(b);
			reply.inferred.outputs = b->shapes;
			reply.inferred.n_outputs = b->n_outputs;
		}
		if (job->profile)
			inf_job_write_profile(b, &writer, &reply.inferred);
	}
	int rc = inf_message_encode_reply(&reply, buffer->packet, &buffer->n_bytes, &buffer->fd, &buffer->codec);
	if (rc < 0 && writer.bytes) { /* no descriptor for a large profile: reply without it */
		reply.inferred.n_profile = 0;
		rc = inf_message_encode_reply(&reply, buffer->packet, &buffer->n_bytes, &buffer->fd, &buffer->codec);
	}
	if (rc < 0)
		buffer->n_bytes = 0;
	et_fbw_deinit(&writer);
}
