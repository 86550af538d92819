/* SPDX-License-Identifier: BSD-3-Clause */
/* The digest of the file that a model was loaded from, for people who ask which file serves.
 *
 * It is computed from the daemon's copy, so it is right also when the file in the folder was replaced since. This takes
 * longer than loading a small model, so it happens on the helper's thread after the model is READY. */
#include "daemon/model/repository_internal.h"
#include "runtime/base/checked.h"

#include <stdlib.h>
#include <string.h>

struct digest {
	struct inf_work work;
	struct inf_repository *repository;
	struct inf_model *model; /* a reference */
	struct et_program *program;
	char hex[ET_PLATFORM_DIGEST];
};

static void digest_run(struct inf_work *work)
{
	struct digest *digest = ET_CONTAINER_OF(work, struct digest, work);
	et_platform_source_digest(et_program_source(digest->program), digest->hex);
}

static void digest_done(struct inf_work *work)
{
	struct digest *digest = ET_CONTAINER_OF(work, struct digest, work);
	struct inf_repository *r = digest->repository;
	memcpy(digest->model->digest, digest->hex, sizeof(digest->hex));
	et_logf(r->o.log, ET_LOG_INFO, "model %s/%s %s: served from %s, SHA-256 %s", digest->model->model,
		digest->model->version, digest->model->method, digest->model->path, digest->hex);
	inf_repository_release_async(r, digest->program, NULL, 0, NULL, NULL);
	inf_model_unref(digest->model);
	r->n_busy--;
	free(digest);
}

void inf_repository_compute_digest(struct inf_repository *r, struct inf_model *s)
{
	struct digest *digest = s->is_uploaded || r->is_closing ? NULL : calloc(1, sizeof(*digest));
	if (!digest)
		return;
	digest->work = (struct inf_work){ .run = digest_run, .done = digest_done };
	digest->repository = r;
	digest->model = inf_model_ref(s);
	digest->program = et_program_ref(s->program);
	r->n_busy++;
	inf_helper_post(r->o.helper, &digest->work, NULL);
}
