/* SPDX-License-Identifier: BSD-3-Clause */
/* The page for browsers at /: one file of HTML, which the build makes of the sources in this folder, and the headers
 * that say what a browser lets it do. */
#ifndef CLIENTS_HTTP_PAGE_PAGE_H
#define CLIENTS_HTTP_PAGE_PAGE_H

#include <microhttpd.h>

/* The answer to GET /. NULL: no memory. */
struct MHD_Response *http_page_response(void);
/* Add to an answer for the page that browsers neither guess its type, nor keep it, nor hand it to other pages. */
void http_page_protect(struct MHD_Response *response);

#endif
