/* SPDX-License-Identifier: BSD-3-Clause */
/* The page, and a content security policy that allows its script and its style by their SHA-256. embed.py makes
 * both. */
#ifndef CLIENTS_HTTP_PAGE_PAGE_DATA_H
#define CLIENTS_HTTP_PAGE_PAGE_DATA_H

#include <stddef.h>

extern const char http_page_text[];
extern const size_t http_page_n_bytes;
extern const char http_page_policy[];

#endif
