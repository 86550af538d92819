/* SPDX-License-Identifier: BSD-3-Clause */
/* Player: a client that sends random requests. Tests use it to check that each request gets exactly one reply, with
 * a status that it can have, whatever clients do. */
#ifndef TESTS_E2E_PLAYER_H
#define TESTS_E2E_PLAYER_H

#include "tests/e2e/harness.h"

struct player_rules {
	const char *const *models;
	uint32_t n_models;
	uint32_t n_endless; /* the last so many of them end only when they are cancelled */
	uint32_t n_timed;   /* those before them end at their deadline at the latest, and not by themselves */
	bool are_unloaded;  /* any of them may be, at any moment */
};

struct player;

/* What follows is decided by this. */
void player_seed(uint64_t seed);
uint32_t player_below(uint32_t n);
/* The number in the environment variable @name. */
uint64_t player_number(const char *name, uint64_t otherwise);

struct player *player_new(struct e2e *e, const struct player_rules *rules);
/* Hangs up, whatever is in flight. NULL is fine. */
void player_free(struct player *p);
/* One move, and the answers that are there. */
void player_step(struct player *p);
/* Ends what is in flight and takes all answers. */
void player_drain(struct player *p);
/* Takes answers until the daemon hangs up. */
void player_outlive(struct player *p);

#endif
