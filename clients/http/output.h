/* SPDX-License-Identifier: BSD-3-Clause */
/* The answer of an inference request. */
#ifndef CLIENTS_HTTP_OUTPUT_H
#define CLIENTS_HTTP_OUTPUT_H

#include "clients/http/request.h"

/* Compare the outputs that the head names with the Method. 0, or the request has an error. */
unsigned http_output_check(struct http_request *r);
/* The run has ended well: make r->response, which takes the binding with it, or an error. */
void http_output_answer(struct http_request *r);

#endif
