/* SPDX-License-Identifier: BSD-3-Clause */
/* A device's memory for tests: a dma-buf over the pages of a memfd, through which the test acts as the device. Needs
 * a kernel with udmabuf. */
#ifndef TESTS_SUPPORT_DMA_BUF_H
#define TESTS_SUPPORT_DMA_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A dma-buf of @n_bytes, whole pages, and in *ret_memory the file below it; both are the caller's. -1 and the cause in
 * errno where there is no udmabuf. */
int test_dma_buf(size_t n_bytes, int *ret_memory);

/* A buffer of a device that can be at work on it, of the kernel's vgem. */
struct test_device {
	int fd;
	uint32_t handle, fence;
	int dma_buf;
};

/* False and the cause in errno where there is no vgem. */
bool test_device_open(struct test_device *device, size_t n_bytes);
void test_device_close(struct test_device *device);
/* The device begins to write into the buffer, and is done; at the latest 10 s later it is. */
void test_device_begin(struct test_device *device);
void test_device_end(struct test_device *device);

#endif
