// SPDX-License-Identifier: BSD-3-Clause
// Times loading a program on the original ExecuTorch runtime with the weight cache that its XNNPACK backend can keep on
// disk, for versus.py.
//
//     peer_cache CACHE-FILE save|load FILE.pte
//
// "save" loads the program, runs it once and has the cache written; "load" is what is timed, and needs the file that an
// earlier "save" left. One thread. Prints one line of JSON: how long loading took, the first run, and how
// large the cache file is, 0 where there is none.
#include <executorch/extension/module/module.h>
#include <executorch/extension/tensor/tensor.h>
#include <executorch/runtime/backend/backend_options_map.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include <sys/stat.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

namespace executorch::extension::threadpool {
// In the wheel's library, without a header there.
class ThreadPool {
    public:
	bool _unsafe_reset_threadpool(unsigned threads);
};
ThreadPool *get_threadpool();
} // namespace executorch::extension::threadpool

using executorch::extension::Module;
using executorch::runtime::Error;

static double since_ms(std::chrono::steady_clock::time_point start)
{
	return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int main(int argc, char **argv)
{
	if (argc != 4 || (strcmp(argv[2], "save") != 0 && strcmp(argv[2], "load") != 0)) {
		fprintf(stderr, "usage: %s CACHE-FILE save|load FILE.pte\n", argv[0]);
		return 2;
	}
	executorch::extension::threadpool::get_threadpool()->_unsafe_reset_threadpool(1);
	// A path counts only where it comes with the program.
	executorch::runtime::BackendOptions<2> where;
	executorch::runtime::LoadBackendOptionsMap options;
	if (where.set_option("weight_cache_enabled", true) != Error::Ok ||
		where.set_option("packed_cache_path", argv[1]) != Error::Ok ||
		options.set_options("XnnpackBackend", where.view()) != Error::Ok)
		return 1;

	auto start = std::chrono::steady_clock::now();
	Module module(argv[3], Module::LoadMode::Mmap);
	if (module.load(options) != Error::Ok || module.load_forward() != Error::Ok) {
		fprintf(stderr, "peer_cache: %s cannot be loaded\n", argv[3]);
		return 1;
	}
	double load_ms = since_ms(start);

	auto meta = module.method_meta("forward");
	std::vector<std::vector<char>> buffers(meta->num_inputs());
	std::vector<executorch::extension::TensorPtr> tensors; // which the inputs only point to
	std::vector<executorch::runtime::EValue> inputs;
	for (size_t i = 0; i < buffers.size(); i++) { // zeros, of the largest shape
		auto tensor = meta->input_tensor_meta(i);
		buffers[i].assign(tensor->nbytes(), 0);
		std::vector<executorch::aten::SizesType> sizes(tensor->sizes().begin(), tensor->sizes().end());
		tensors.push_back(executorch::extension::make_tensor_ptr(
			sizes, buffers[i].data(), tensor->scalar_type()));
		inputs.emplace_back(tensors.back());
	}
	start = std::chrono::steady_clock::now();
	if (!module.forward(inputs).ok()) {
		fprintf(stderr, "peer_cache: %s cannot be run\n", argv[3]);
		return 1;
	}
	double first_run_ms = since_ms(start);
	if (strcmp(argv[2], "save") == 0) {
		executorch::runtime::BackendOptions<1> save;
		if (save.set_option("save_weight_cache_on_disk", true) != Error::Ok ||
			executorch::runtime::set_option("XnnpackBackend", save.view()) != Error::Ok) {
			fprintf(stderr, "peer_cache: %s is not written\n", argv[1]);
			return 1;
		}
	}
	struct stat st = {};
	(void)stat(argv[1], &st);
	printf("{\"load_ms\": %.3f, \"first_run_ms\": %.3f, \"cache_bytes\": %lld}\n", load_ms, first_run_ms,
		(long long)st.st_size);
	return 0;
}
