/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing what was packed for a model to the disk, and then a copy of its file, so that its next load finds them.
 *
 * This happens on the helper's threads after the model is READY, so no client waits for it: the copy on a user thread,
 * one after the other, since compiling others need not wait for it. The Plan is referenced meanwhile and released on
 * the helper's own thread. A failure costs only the time of the next load and is logged. Uploaded programs are not
 * kept. */
#include "daemon/model/repository_internal.h"
#include "daemon/base/text.h"
#include "runtime/base/checked.h"
#include "runtime/platform/platform.h"

#include <stdlib.h>

struct keep {
	struct inf_work work;
	struct inf_repository *repository;
	struct et_plan *plan;       /* a reference */
	struct et_program *program; /* a reference */
	enum et_status status;
	struct et_diag diag;
	char model[256];
};

static void keep_run(struct inf_work *work)
{
	struct keep *keep = ET_CONTAINER_OF(work, struct keep, work);
	keep->status = et_plan_keep(keep->plan, &keep->diag);
	et_plan_unref(keep->plan); /* perhaps the last reference: on the helper's thread, where freeing may take long */
}

static void copy_run(struct inf_work *work)
{
	const struct keep *keep = ET_CONTAINER_OF(work, struct keep, work);
	et_platform_store_save_copy(et_program_source(keep->program));
}

static void copy_done(struct inf_work *work)
{
	struct keep *keep = ET_CONTAINER_OF(work, struct keep, work);
	inf_repository_release_async(keep->repository, keep->program, NULL, 0, NULL, NULL);
	keep->repository->n_busy--;
	free(keep);
}

static void keep_done(struct inf_work *work)
{
	struct keep *keep = ET_CONTAINER_OF(work, struct keep, work);
	if (keep->status != ET_OK && !keep->repository->is_closing)
		et_logf(keep->repository->o.log, ET_LOG_WARNING,
			"model %s: its packed weights can't be kept for the next load: %s", keep->model,
			keep->diag.text[0] ? keep->diag.text : et_status_text(keep->status));
	if (keep->status != ET_OK || keep->repository->is_closing) {
		copy_done(work);
		return;
	}
	keep->work.run = copy_run;
	keep->work.done = copy_done;
	inf_helper_post_for_user(keep->repository->o.helper, &keep->work, keep->repository->o.store);
}

void inf_repository_keep(struct inf_repository *r, const struct inf_model *s)
{
	if (!r->o.store || s->is_uploaded || r->is_closing)
		return;
	struct keep *keep = calloc(1, sizeof(*keep));
	if (!keep)
		return;
	keep->work.run = keep_run;
	keep->work.done = keep_done;
	keep->repository = r;
	keep->plan = et_plan_ref(s->plan);
	keep->program = et_program_ref(s->program);
	inf_text(keep->model, sizeof(keep->model), "%s", s->model);
	r->n_busy++;
	inf_helper_post(r->o.helper, &keep->work, NULL);
}
