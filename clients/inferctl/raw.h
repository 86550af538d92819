/* SPDX-License-Identifier: BSD-3-Clause */
/* Raw outputs: the files of `inferctl verify --raw DIR`, for other programs that compare outputs.
 *
 *     DIR/manifest.json   {"format": 1, "files": [ {"path": "…/add.bpte", "verdict": "passed",
 *                            "methods": [ {"method": "forward", "cases": [ {"outputs": [
 *                               {"file": "0/0-0-0.raw", "kind": "Tensor", "datatype": "FP32",
 *                                "shape": [2,3], "dim_order": [0,1]},
 *                               {"kind": "Int", "value": 5} ]} ]} ]} ]}
 *     DIR/F/M-C-O.raw     output O of case C of suite M of file F, counted from 0 in the manifest's order: the
 *                         elements dense in dim order, little-endian
 * A case that failed to run has {"error": "…"} instead of outputs. Cases are in the order in which they ran. */
#ifndef CLIENTS_INFERCTL_RAW_H
#define CLIENTS_INFERCTL_RAW_H

#include "clients/inferctl/value.h"

struct ctl_raw {
	const char *folder; /* NULL: every call succeeds and writes nothing */
	json_t *files;
	json_t *outputs; /* of the current case, borrowed */
	size_t n_files, n_suites, n_cases;
};

/* Make @folder (NULL: write nothing), then begin a file, its suites and their cases, in this order. Functions that
 * return int return 0, or -1 with a message on stderr. */
int ctl_raw_open(struct ctl_raw *raw, const char *folder);
int ctl_raw_begin_file(struct ctl_raw *raw, const char *path);
void ctl_raw_begin_suite(struct ctl_raw *raw, const char *method);
void ctl_raw_begin_case(struct ctl_raw *raw);
int ctl_raw_output(struct ctl_raw *raw, const struct ctl_value *value);
void ctl_raw_case_error(struct ctl_raw *raw, const char *text);
void ctl_raw_end_file(struct ctl_raw *raw, const char *verdict);
/* Write the manifest and free everything. */
int ctl_raw_close(struct ctl_raw *raw);

#endif
