/* SPDX-License-Identifier: BSD-3-Clause */
/* Release: freeing what is large beside the loop.
 *
 * Freeing a gigabyte takes long enough for every client to notice. So the last references to programs, Plans,
 * Methods with large states and clients' regions are dropped on the helper's thread; the loop frees only what is
 * small, and not much of it at a time. The memory counts in the budget until it is free. Without the memory to post
 * a release, the loop drops the references itself. */
#include "daemon/model/repository_internal.h"
#include "runtime/base/checked.h"

#include <stdlib.h>
#include <sys/stat.h>

struct release {
	struct inf_work work;
	struct inf_repository *repository;
	struct et_program *program;
	struct et_plan *plan;
	struct inf_region *region;
	struct et_method *method;
	uint64_t n_bytes; /* of the memory budget */
	void (*gone)(void *arg);
	void *arg;
};

static void release_run(struct inf_work *work)
{
	struct release *release = ET_CONTAINER_OF(work, struct release, work);
	et_method_free(release->method);
	et_plan_unref(release->plan);
	et_program_unref(release->program);
	inf_region_unref(release->region);
}

static void release_done(struct inf_work *work)
{
	struct release *release = ET_CONTAINER_OF(work, struct release, work);
	release->repository->n_busy--;
	release->repository->n_leaving -= release->n_bytes;
	if (release->gone)
		release->gone(release->arg);
	free(release);
}

/* Drop the references of @references, on the helper's thread or, without memory for that, here. */
static void post(struct inf_repository *r, struct release references)
{
	struct release *release = r && r->has_helper ? calloc(1, sizeof(*release)) : NULL;
	if (!release) {
		release_run(&references.work);
		if (references.gone)
			references.gone(references.arg);
		if (r && r->has_helper) /* loads that wait for room check again */
			r->o.notify(r->o.self);
		return;
	}
	*release = references;
	if (release->n_bytes > UINT64_MAX - r->n_leaving) /* so that release_done subtracts what is added here */
		release->n_bytes = UINT64_MAX - r->n_leaving;
	r->n_leaving += release->n_bytes;
	release->work.run = release_run;
	release->work.done = release_done;
	release->repository = r;
	r->n_busy++;
	inf_helper_post_leaving(r->o.helper, &release->work);
}

void inf_repository_release_async(void *self, struct et_program *program, struct et_plan *plan, uint64_t n_bytes,
	void (*gone)(void *arg), void *arg)
{
	if (program || plan)
		post(self, (struct release){
				   .program = program, .plan = plan, .n_bytes = n_bytes, .gone = gone, .arg = arg });
	else if (gone)
		gone(arg);
}

enum { LITTLE = 1 << 20 };

/* Freeing little memory takes less time than posting it. But many small pieces, as when a client with a thousand
 * regions ends, are freed here only up to LITTLE in all. */
bool inf_repository_is_little(struct inf_repository *r, uint64_t n_bytes)
{
	if (n_bytes >= LITTLE || (r && r->n_at_once + n_bytes > LITTLE))
		return false;
	if (r)
		r->n_at_once += n_bytes;
	return true;
}

void inf_repository_release_async_region(struct inf_repository *r, struct inf_region *region, void (*gone)(void *arg),
	void *arg)
{
	enum { AT_LEAST = 16 << 10 };
	struct stat st; /* the file may be larger than the mapping, and this may be its last descriptor */
	if (region->mapping.n_bytes < LITTLE && fstat(region->fd, &st) == 0 &&
		inf_repository_is_little(r, (uint64_t)st.st_blocks * 512 + AT_LEAST)) {
		inf_region_unref(region);
		gone(arg);
	} else {
		post(r, (struct release){ .region = region, .gone = gone, .arg = arg });
	}
}

void inf_repository_release_async_method(struct inf_repository *r, struct et_method *method, uint64_t n_bytes,
	void (*gone)(void *arg), void *arg)
{
	post(r, (struct release){ .method = method, .n_bytes = n_bytes, .gone = gone, .arg = arg });
}
