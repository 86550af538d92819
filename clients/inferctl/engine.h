/* SPDX-License-Identifier: BSD-3-Clause */
/* Engine: runs models, either in the daemon (remote.c) or in this process (local.c). verify, infer and bench use this
 * interface and do not depend on which one it is.
 *
 *     engine     the daemon's address, or the backends opened in this process
 *     model      one method of a file, or of a model that the daemon serves; shared by all seats
 *     seat       what one thread needs: a connection, or its worker threads and scratch memory
 *     instance   one Method at a seat, with memory for its inputs and outputs
 *
 * One thread makes and frees an engine and its models. A seat and its instances belong to the thread that made them.
 * Close instances before their seat and model, and those before the engine. */
#ifndef CLIENTS_INFERCTL_ENGINE_H
#define CLIENTS_INFERCTL_ENGINE_H

#include "clients/inferctl/ctl.h"
#include "clients/inferctl/file.h"
#include "clients/inferctl/value.h"

/* Why a call failed. */
struct ctl_error {
	bool is_missing; /* an operator or a backend is not available: nothing is wrong, but this cannot run here */
	char text[640];
};
/* Write the sentence, return -1. */
int ctl_error_set(struct ctl_error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

struct ctl_engine_options {
	bool is_local;
	const char *socket;    /* for the daemon; NULL: the default */
	unsigned n_seats;      /* at most so many seats are opened */
	unsigned n_threads;    /* local: threads that a seat computes with, at most as many as there are usable cores */
	const char *cache;     /* local: a folder that keeps packed weights; NULL: none are kept */
	const char *config;    /* local: the daemon's configuration, for its plug-ins; NULL: the installed one */
	const char *backend;   /* daemon: backends in the order in which they are wanted; NULL: any */
	bool poison;           /* local: fill activations with NaN before each run */
	unsigned reconnect_ms; /* for the daemon: for how long a lost connection is tried again */
};

/* The rows of an option table that fill @to, a struct ctl_engine_options. */
/* clang-format off */
#define CTL_ENGINE_OPTIONS(to) \
	{ "local", 'l', CTL_FLAG, &(to).is_local, NULL, "run in this process, without the daemon" }, \
	{ "backend", 0, CTL_STRING, &(to).backend, "NAMES", \
		"use the first of these backends that the model has a variant for: \"npu, xnnpack\"" }, \
	{ "config", 0, CTL_STRING, &(to).config, "FILE", \
		"with --local: use the plug-ins and options of this configuration of the daemon" }, \
	{ "cache", 0, CTL_STRING, &(to).cache, "DIR", \
		"with --local: keep packed weights in DIR, and use those that are there" }, \
	{ "threads", 't', CTL_UINT, &(to).n_threads, "N", \
		"with --local: cores that one request computes on, at most those that may be used (default 1)" }
/* clang-format on */

/* The description of an input or output. */
struct ctl_io {
	struct ctl_value value; /* without data; n_bytes and sizes are the largest ones */
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

/* The functions that local.c and remote.c provide. Functions that return int return 0, or -1 with @error set. */
struct ctl_engine_ops {
	void (*free)(struct ctl_engine *engine);
	int (*model_open)(struct ctl_engine *engine, struct ctl_model **ret, const char *name, struct ctl_file *file,
		const char *method, struct ctl_error *error);
	void (*model_close)(struct ctl_model *model);
	int (*seat_open)(struct ctl_engine *engine, struct ctl_seat **ret, unsigned index, struct ctl_error *error);
	void (*seat_close)(struct ctl_seat *seat);
	/* @with: NULL, or another instance at the same seat and of the same file; the new one shares its state.
	 * Fails if the two methods have no state to share. Close @with after the new instance. */
	int (*instance_open)(struct ctl_seat *seat, struct ctl_instance **ret, struct ctl_model *model,
		const struct ctl_instance *with, struct ctl_error *error);
	void (*instance_close)(struct ctl_instance *instance);
	/* The memory of input @index, with room for its largest shape. */
	void *(*input)(struct ctl_instance *instance, unsigned index);
	/* Set the sizes of a tensor, or the number, for the next run. The caller has checked kind, type and rank. */
	int (*describe_input)(struct ctl_instance *instance, unsigned index, const struct ctl_value *value,
		struct ctl_error *error);
	int (*run)(struct ctl_instance *instance, struct ctl_error *error);
	/* Run and measure. The caller frees *ret_etdump (runtime/profile/etdump.h). */
	int (*run_profiled)(struct ctl_instance *instance, void **ret_etdump, size_t *ret_n_bytes,
		struct ctl_error *error);
	/* Output @index of the last run. Its data is valid until the next run. */
	int (*output)(struct ctl_instance *instance, unsigned index, struct ctl_value *ret, struct ctl_error *error);
	int (*reset)(struct ctl_instance *instance, struct ctl_error *error);
	struct ctl_timing (*timing)(struct ctl_instance *instance);
	/* Resident memory of the process that computes, in bytes; 0 if unknown. */
	uint64_t (*resident_bytes)(struct ctl_seat *seat);
	/* How many inputs and outputs of a run were copied, because they cannot be used where they lie. */
	unsigned (*n_copied)(struct ctl_instance *instance);
};

/* Make the engine that @options and @ctl's socket select. The caller frees it with ops->free. Returns an exit code; on
 * failure the message is printed. */
int ctl_engine_begin(const struct ctl *ctl, struct ctl_engine **ret_engine, const struct ctl_engine_options *options);
int ctl_local_engine_new(struct ctl_engine **ret_engine, const struct ctl_engine_options *options,
	struct ctl_error *error);
int ctl_remote_engine_new(struct ctl_engine **ret_engine, const struct ctl_engine_options *options,
	struct ctl_error *error);

/* A model and an instance of it. */
struct ctl_opened {
	struct ctl_model *model;
	struct ctl_instance *instance;
};
/* Open @method of @name or @file into @all[@index], which is all zeros. The entries before it are of the same file,
 * or all zeros. The new instance shares state with the first of them that has state to share, else it has its own.
 * On failure returns -1 with @error set; ctl_opened_close_all closes what was opened nevertheless. */
int ctl_opened_open(struct ctl_seat *seat, struct ctl_opened *all, size_t index, const char *name,
	struct ctl_file *file, const char *method, struct ctl_error *error);
/* Close all entries, last one first, as sharing requires, and free @all. */
void ctl_opened_close_all(struct ctl_engine *engine, struct ctl_opened *all, size_t n);

/* Check that @value fits input @index, and copy it there. -1 with @error set. */
int ctl_instance_set_input(struct ctl_instance *instance, unsigned index, const struct ctl_value *value,
	struct ctl_error *error);
/* Set all inputs from a bundled test case; @test NULL: zeros of the largest shapes. -1 with @error set. */
int ctl_instance_set_case(struct ctl_instance *instance, const struct et_bundle_case *test, struct ctl_error *error);

#endif
