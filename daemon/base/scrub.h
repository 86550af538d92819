/* SPDX-License-Identifier: BSD-3-Clause */
/* Scrub: a thread that reads persisted weights while they are in use, and marks what is damaged.
 *
 * What is damaged, and when a file is read again, is decided by runtime/platform/store_check.c. fallback.c has the
 * models of marked files loaded anew. Loop thread only. */
#ifndef DAEMON_BASE_SCRUB_H
#define DAEMON_BASE_SCRUB_H

#include <stdbool.h>

struct et_log;
struct et_platform_store;
struct inf_scrub;

/* @store and @log must outlive it. NULL: no memory or no thread, which is logged; then nothing is checked. */
struct inf_scrub *inf_scrub_new(struct et_platform_store *store, const struct et_log *log);
/* End the thread soon, and all that takes long in the store. Does not wait. NULL is fine. */
void inf_scrub_stop(struct inf_scrub *scrub);
/* Stops it and waits. NULL is fine; returns NULL. */
struct inf_scrub *inf_scrub_free(struct inf_scrub *scrub);
/* Look for files to check now. NULL is fine. */
void inf_scrub_wake(struct inf_scrub *scrub);

#endif
