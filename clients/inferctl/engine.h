/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine: something that runs models, the daemon or this process; verify, infer and bench do not care which.
 *
 *     engine     the daemon's address, or the backends opened in this process
 *     model      one method of a file (or of a model that the daemon serves) made ready, shared by all seats
 *     seat       one thread's place at the engine: its connection, or its lanes and scratch
 *     instance   one client's Method at a seat, with memory for its inputs and outputs
 *
 * An engine and its models are made and freed by one thread; a seat and its instances belong to the thread that
 * made them. Instances go before their seat and model, those before the engine. */
#ifndef CLIENTS_INFERCTL_ENGINE_H
#define CLIENTS_INFERCTL_ENGINE_H

#include "clients/inferctl/ctl.h"
#include "clients/inferctl/file.h"
#include "clients/inferctl/value.h"

/* Why something did not work. */
struct ctl_error {
	bool is_missing; /* an operator or a backend is not there: not wrong, but not to be run here either */
	char text[640];
};
/* Write the sentence, return -1. */
int ctl_error_set(struct ctl_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct ctl_engine_options {
	bool is_local;
	const char *socket; /* for the daemon; NULL: the default */
	unsigned n_seats;   /* how many seats there will be at most */
	unsigned n_threads; /* local: threads a seat computes with */
	const char *cache;  /* local: a folder where packed weights are kept; NULL: nowhere */
	const char *config; /* local: the daemon's configuration, for its plug-ins; NULL: where it was installed */
	bool poison;        /* local: fill activations with NaN before each run */
};

/* The rows of a command's options that choose the engine, for its struct ctl_engine_options @to. */
/* clang-format off */
#define CTL_ENGINE_OPTIONS(to) \
	{ "local", 'l', CTL_FLAG, &(to).is_local, NULL, "in this process, without the daemon" }, \
	{ "config", 0, CTL_STRING, &(to).config, "FILE", \
		"with --local: the daemon's configuration, whose plug-ins and options of backends are used" }, \
	{ "cache", 0, CTL_STRING, &(to).cache, "DIR", \
		"with --local: keep packed weights in this folder, and use what is there" }, \
	{ "threads", 't', CTL_UINT, &(to).n_threads, "N", \
		"with --local: threads that one request computes on (1)" }
/* clang-format on */

/* One input or output. */
struct ctl_io {
	struct ctl_value value; /* no data; n_bytes and sizes at the largest */
	bool is_dynamic;
};

struct ctl_timing {
	uint64_t queue_ns, run_ns;
};

struct ctl_engine {
	const struct ctl_engine_ops *ops;
	struct ctl_engine_options options;
};
struct ctl_model {
	struct ctl_engine *engine;
};
struct ctl_seat {
	struct ctl_engine *engine;
	unsigned index;
};
struct ctl_instance {
	struct ctl_engine *engine;
	unsigned n_inputs, n_outputs;
	struct ctl_io *inputs, *outputs;
	bool is_stateful;
	char backend[64];
};

/* What local.c and remote.c provide. Those that can fail return -1 with @error set. */
struct ctl_engine_ops {
	void (*free)(struct ctl_engine *engine);
	int (*model_open)(struct ctl_engine *engine, struct ctl_model **ret, const char *name, struct ctl_file *file,
		const char *method, struct ctl_error *error);
	void (*model_close)(struct ctl_model *model);
	int (*seat_open)(struct ctl_engine *engine, struct ctl_seat **ret, unsigned index, struct ctl_error *error);
	void (*seat_close)(struct ctl_seat *seat);
	/* @with: NULL, or another one at the same seat and of the same file, whose state the new one is to share: fails if the two
	 * methods have none to share. It must go after the new one. */
	int (*instance_open)(struct ctl_seat *seat, struct ctl_instance **ret, struct ctl_model *model,
		const struct ctl_instance *with, struct ctl_error *error);
	void (*instance_close)(struct ctl_instance *instance);
	/* Where input @index lies, with room for its n_bytes at the largest. */
	void *(*input)(struct ctl_instance *instance, unsigned index);
	/* Its sizes (a tensor's) or its number for the next run; kind, type and rank have been checked. */
	int (*describe_input)(struct ctl_instance *instance, unsigned index, const struct ctl_value *value,
		struct ctl_error *error);
	int (*run)(struct ctl_instance *instance, struct ctl_error *error);
	/* The same with times; *@ret_etdump (runtime/profile/etdump.h) is the caller's to free. */
	int (*run_profiled)(struct ctl_instance *instance, void **ret_etdump, size_t *ret_n_bytes,
		struct ctl_error *error);
	/* As it came out of the last run; data is valid until the next. */
	int (*output)(struct ctl_instance *instance, unsigned index, struct ctl_value *ret, struct ctl_error *error);
	int (*reset)(struct ctl_instance *instance, struct ctl_error *error);
	struct ctl_timing (*timing)(struct ctl_instance *instance);
	/* Resident memory of whoever computes, in bytes; 0 if unknown. */
	uint64_t (*resident_bytes)(struct ctl_seat *seat);
	/* How many inputs and outputs of a run cannot be used where they lie and are copied. */
	unsigned (*n_copied)(struct ctl_instance *instance);
};

/* The engine that @options, with @ctl's socket, choose, to be freed with ops->free; an exit code, what is wrong is said. */
int ctl_engine_begin(const struct ctl *ctl, struct ctl_engine **ret_engine, const struct ctl_engine_options *options);
int ctl_local_engine_new(struct ctl_engine **ret_engine, const struct ctl_engine_options *options,
	struct ctl_error *error);
int ctl_remote_engine_new(struct ctl_engine **ret_engine, const struct ctl_engine_options *options,
	struct ctl_error *error);

/* A method of a file or model, and an instance of it. */
struct ctl_opened {
	struct ctl_model *model;
	struct ctl_instance *instance;
};
/* Open @all[@index], which is all zeros; @all before it, which may be so too, are of the same @name and @file: it shares the
 * state of the first of these that has any to share with it, else it has its own. -1 with @error set; what was
 * opened even so is closed by ctl_opened_close_all. */
int ctl_opened_open(struct ctl_seat *seat, struct ctl_opened *all, size_t index, const char *name,
	struct ctl_file *file, const char *method, struct ctl_error *error);
/* In the order that sharing asks for; frees @all. */
void ctl_opened_close_all(struct ctl_engine *engine, struct ctl_opened *all, size_t n);

/* Put @value into input @index, after checking that it fits. */
int ctl_instance_set_input(struct ctl_instance *instance, unsigned index, const struct ctl_value *value,
	struct ctl_error *error);
/* All inputs of a bundle's case; @test NULL: zeros of the largest sizes. */
int ctl_instance_set_case(struct ctl_instance *instance, const struct et_bundle_case *test, struct ctl_error *error);

#endif
