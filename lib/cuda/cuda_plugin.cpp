// The plug-in: which GPUs a process may use, and its one exported function.
#include "base/error.hpp"
#include "base/text.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/device_failure.hpp"
#include "cuda/kernel_entries.hpp"
#include "cuda/libtorch_cuda.hpp"
#include "cuda/nccl_functions.hpp"
#include "cuda/product_call.hpp"
#include "device/device_build.hpp"
#include "device/device_plugin.hpp"
#include "report/device_peaks.hpp"

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::cuda {

namespace {

constexpr int cuda_device_type = 1;  // c10::DeviceType::CUDA
constexpr int least_major = 8, least_minor = 0;

/// "GPU-" and 32 hexadecimal digits in five groups, as nvidia-smi prints it.
std::string text_of(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  int number = 0;
  for (const char byte : uuid.bytes) {
    if (number == 4 || number == 6 || number == 8 || number == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    ++number;
  }
  return text;
}

std::string version_text(int version) {
  constexpr int major = 1000, minor = 10;
  return fmt::format("{}.{}", version / major, version % major / minor);
}

/// No device is in use yet that could fail.
void require(cudaError_t answer, std::string_view doing) {
  if (answer == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  fail(ExitCode::resources, "{}: {}", doing, cudaGetErrorString(answer));
}

int device_count() {
  int count = 0;
  const cudaError_t answer = cudaGetDeviceCount(&count);
  if (answer == cudaErrorInsufficientDriver) {
    int version = 0;
    require(cudaDriverGetVersion(&version), "cannot ask for the version of the NVIDIA driver");
    if (version == 0)
      throw Error(ExitCode::resources, "this machine has no NVIDIA driver: libcuda.so.1 is missing",
                  "start on a machine with a GPU and its driver");
    throw Error(ExitCode::resources,
                fmt::format("the NVIDIA driver of this machine is for CUDA {}, and Lockstep needs {}",
                            version_text(version), version_text(CUDART_VERSION)),
                "update the driver");
  }
  if (answer == cudaErrorNoDevice || (answer == cudaSuccess && count == 0))
    throw Error(ExitCode::resources, "the NVIDIA driver shows this process no GPU",
                "nvidia-smi lists the GPUs; CUDA_VISIBLE_DEVICES may hide them");
  require(answer, "cannot count the GPUs");
  return count;
}

class ProductsOfGpu final : public DeviceProducts {
 public:
  ProductVersions versions() override {
    int driver = 0;
    call("cannot ask for the version of the NVIDIA driver", [&] { return cudaDriverGetVersion(&driver); });
    return {.driver = "CUDA " + version_text(driver), .library = cublaslt_version()};
  }
  std::vector<std::string> computed() override { return computed_products(); }
  int fastest(const std::string& product) override { return fastest_algorithm(product); }
  void use(const std::string& product, int proposal) override { use_algorithm(product, proposal); }
};

class Plugin final : public DevicePlugin {
 public:
  std::vector<DeviceProperties> devices() override {
    std::vector<DeviceProperties> found;
    std::vector<std::string> refused;
    indices_.clear();
    const int count = device_count();
    for (int index = 0; index < count; ++index) {
      cudaDeviceProp of{};
      require(cudaGetDeviceProperties(&of, index), fmt::format("cannot ask for the properties of GPU {}", index));
      if (of.major < least_major || (of.major == least_major && of.minor < least_minor)) {
        refused.push_back(fmt::format("GPU {} ({}) has compute capability {}.{}", index, of.name, of.major, of.minor));
        continue;
      }
      int numa_node = -1;
      require(cudaDeviceGetAttribute(&numa_node, cudaDevAttrHostNumaId, index),
              fmt::format("cannot ask for the NUMA node of GPU {}", index));
      indices_.push_back(index);
      found.push_back({.name = of.name,
                       .uuid = text_of(of.uuid),
                       .memory_bytes = static_cast<std::int64_t>(of.totalGlobalMem),
                       .overhead = {.context_bytes = 0,
                                    .workspace_bytes = product_workspace_bytes,
                                    .communicator_bytes = assumed_communicator_bytes},
                       .vocabulary_multiple = gpu_vocabulary_multiple,
                       .multiprocessors = of.multiProcessorCount,
                       .numa_node = numa_node,
                       .tensor_type = cuda_device_type,
                       .tensor_index = index,
                       .is_host = false});
    }
    if (found.empty())
      throw Error(ExitCode::resources,
                  fmt::format("{}; at least {}.{} is needed", join(refused, ", "), least_major, least_minor),
                  "GPUs from Ampere (A100, RTX 30) on are supported");
    open_libtorch_cuda();
    return found;
  }
  std::unique_ptr<Device> open(int index, const DeviceSettings& settings, void (*count)(std::int64_t bytes)) override {
    const std::vector<DeviceProperties> all = devices();
    const auto number = static_cast<std::size_t>(index);
    invariant(number < all.size(), "the device is one of those that were listed");
    allow_tf32(settings.tf32);
    return std::make_unique<CudaDevice>(indices_[number], all[number], count);
  }
  const void* kernels(const void*) override { return &kernel_tables(); }
  const NcclTable& nccl() override { return nccl_functions(); }
  DeviceProducts& products() override { return products_; }

 private:
  ProductsOfGpu products_;
  std::vector<int> indices_;  // of CUDA, by ours
};

}  // namespace

}  // namespace lockstep::cuda

extern "C" __attribute__((visibility("default"))) const lockstep::DevicePluginTable* lockstep_device() {
  static auto* const plugin = new lockstep::cuda::Plugin;
  static const lockstep::DevicePluginTable table{lockstep::device_build, plugin};
  return &table;
}
