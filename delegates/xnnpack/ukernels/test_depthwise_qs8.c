/* SPDX-License-Identifier: BSD-3-Clause */
/* Depthwise convolutions of 8 bits against plain loops, to the bit: both kernels and strides, images smaller than a
 * tile and larger than a strip, blocks of channels in part, any border, extremes. */
#include "delegates/xnnpack/ukernels/depthwise_qs8.h"
#include "delegates/xnnpack/support/test_draw.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

enum { BACKGROUND = 0x5a };

/* Arrays, between pages that nobody can use: AddressSanitizer does not see what vector instructions read. */
enum { MAX_ARRAYS = 6 };
static struct mapping {
	uint8_t *bytes;
	size_t n;
} mappings[MAX_ARRAYS];
static int n_mappings;
static bool is_at_end; /* of its pages an array lies at the end, else at the beginning */

static void *memory(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n_whole = (n + page - 1) / page * page;
	struct mapping *m = &mappings[n_mappings++];
	assert_in_range(n_mappings, 1, MAX_ARRAYS);
	m->n = n_whole + 2 * page;
	m->bytes = mmap(NULL, m->n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(m->bytes, MAP_FAILED);
	assert_int_equal(mprotect(m->bytes + page, n_whole, PROT_READ | PROT_WRITE), 0);
	return m->bytes + page + (is_at_end ? n_whole - n : 0);
}

static void free_memory(void)
{
	while (n_mappings) {
		n_mappings--;
		assert_int_equal(munmap(mappings[n_mappings].bytes, mappings[n_mappings].n), 0);
	}
}

static int8_t *bytes_of(size_t n, int extreme)
{
	int8_t *bytes = memory(n);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (int8_t)(extreme ? (test_draw(2) ? 127 : -128) : (int)test_draw(256) - 128);
	return bytes;
}

static int8_t plain(const struct et_depthwise_qs8 *job, const struct et_depthwise_qs8_filter *filter, size_t at)
{
	size_t channel = at % job->channels, x = at / job->channels % job->out_width,
	       y = at / job->channels / job->out_width % job->out_height,
	       image = at / job->channels / job->out_width / job->out_height;
	int32_t sum = filter->bias ? filter->bias[channel] : 0;
	for (size_t tap = 0; tap < job->kernel * job->kernel; tap++) {
		ptrdiff_t row = (ptrdiff_t)(y * job->stride + tap / job->kernel) - job->top,
			  column = (ptrdiff_t)(x * job->stride + tap % job->kernel) - job->left;
		if (row < 0 || row >= (ptrdiff_t)job->height || column < 0 || column >= (ptrdiff_t)job->width)
			continue;
		size_t pixel = (image * job->height + (size_t)row) * job->width + (size_t)column;
		sum += (job->in[pixel * job->channels + channel] - job->zero) *
		       filter->taps[tap * job->channels + channel];
	}
	float scale = filter->in_scale * (filter->scales ? filter->scales[channel] : filter->scale) / filter->out_scale;
	float value = rintf(fmaxf(fminf((float)sum * scale, job->max), job->min));
	return (int8_t)(value + (float)job->out_zero);
}

/* An image of @height x @width; borders are drawn. */
static void try(size_t channels, size_t height, size_t width, size_t kernel, size_t stride, int extreme)
{
	struct et_depthwise_qs8 job = { .channels = channels,
		.height = height,
		.width = width,
		.kernel = kernel,
		.stride = stride,
		.top = (ptrdiff_t)test_draw((uint32_t)kernel),
		.left = (ptrdiff_t)test_draw((uint32_t)kernel),
		.zero = (int8_t)(test_draw(256) - 128),
		.out_zero = (int8_t)(test_draw(256) - 128) };
	size_t below = test_draw((uint32_t)kernel), right = test_draw((uint32_t)kernel), n_images = 1 + test_draw(2);
	if (height + (size_t)job.top + below < kernel || width + (size_t)job.left + right < kernel)
		return;
	job.out_height = (height + (size_t)job.top + below - kernel) / stride + 1;
	job.out_width = (width + (size_t)job.left + right - kernel) / stride + 1;
	job.min = (float)((test_draw(2) ? -128 : -20) - job.out_zero);
	job.max = (float)((test_draw(2) ? 127 : 20) - job.out_zero);
	size_t n_out = n_images * job.out_height * job.out_width * channels;
	is_at_end = test_draw(2);
	int8_t *in = bytes_of(n_images * height * width * channels, extreme),
	       *taps = bytes_of(kernel * kernel * channels, extreme), *out = memory(n_out);
	int32_t *bias = memory(channels * sizeof(*bias));
	float *scales = memory(channels * sizeof(*scales));
	for (size_t i = 0; i < channels; i++) {
		bias[i] = (int32_t)test_draw(20001) - 10000;
		scales[i] = 0.001f * (float)(1 + test_draw(100));
	}
	const struct et_depthwise_qs8_filter filter = { .channels = channels,
		.kernel = kernel,
		.zero = job.zero,
		.taps = taps,
		.bias = test_draw(3) ? bias : NULL,
		.scales = test_draw(3) ? scales : NULL,
		.scale = 0.01f,
		.in_scale = 0.02f,
		.out_scale = extreme ? 1.5f : 0.5f };
	size_t n_packed = et_depthwise_qs8_n_packed(channels, kernel);
	uint8_t *packed = memory(n_packed);
	memset(packed, BACKGROUND, n_packed);
	et_depthwise_qs8_pack(&filter, packed);
	job.packed = packed;
	job.in = in;
	job.out = out;
	size_t n_rows = n_images * job.out_height, n_row = job.out_width * channels,
	       begin = test_draw((uint32_t)n_rows + 1), end = begin + test_draw((uint32_t)(n_rows - begin) + 1);
	for (int is_whole = 0; is_whole < 2; is_whole++) {
		begin = is_whole ? 0 : begin;
		end = is_whole ? n_rows : end;
		memset(out, BACKGROUND, n_out);
		et_depthwise_qs8()->run(&job, begin, end);
		for (size_t i = 0; i < n_out; i++) {
			int8_t right_one = BACKGROUND;
			if (i >= begin * n_row && i < end * n_row)
				right_one = plain(&job, &filter, i);
			if (out[i] != right_one)
				fail_msg("%zu channels, %zu x %zu, kernel %zu, stride %zu: output %zu is %d, not %d",
					channels, height, width, kernel, stride, i, out[i], right_one);
		}
	}
	free_memory();
}

static void test_sizes(void **state)
{
	if (!et_depthwise_qs8())
		skip();
	for (size_t n = 1; n <= 140; n++)
		for (size_t kernel = 3; kernel <= 5; kernel += 2)
			for (size_t stride = 1; stride <= 2; stride++)
				try(n, 1 + test_draw(9), 1 + test_draw(14), kernel, stride, n % 4 == 0);
	for (size_t width = 1; width <= 30; width++)
		for (size_t stride = 1; stride <= 2; stride++) {
			try(1 + test_draw(70), 1 + test_draw(4), width, 3, stride, 0);
			try(1 + test_draw(70), 1 + test_draw(4), width, 5, stride, 0);
		}
}

/* Rows of which a strip holds a few, or less than one. */
static void test_large(void **state)
{
	if (!et_depthwise_qs8())
		skip();
	try(100, 9, 1100, 3, 1, 0);
	try(70, 8, 2000, 5, 2, 0);
	try(1500, 6, 200, 3, 2, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_large),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
