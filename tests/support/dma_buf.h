/* A device's memory for tests, where the kernel has udmabuf: a dma-buf over the pages of a memory file, through which
 * the test does what the device would. */
#ifndef TESTS_SUPPORT_DMA_BUF_H
#define TESTS_SUPPORT_DMA_BUF_H

#include <stddef.h>

/* A dma-buf of @n_bytes, whole pages, and in *ret_memory the file below it; both are the caller's. -1 and the cause in
 * errno where there is no udmabuf. */
int test_dma_buf(size_t n_bytes, int *ret_memory);

#endif
