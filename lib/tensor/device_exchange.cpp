#include "tensor/device_exchange.hpp"

#include "base/error.hpp"
#include "device/device.hpp"
#include "tensor/arena.hpp"
#include "tensor/functions/kernel_table.hpp"
#include "tensor/libtorch_error.hpp"
#include "tensor/live_memory.hpp"

#include <c10/util/Exception.h>

#include <memory>
#include <string>
#include <utility>

namespace lockstep {

DeviceExchange exchange_of_device() {
  const DeviceProperties& device = this_device().properties();
  if (device.is_host) return {};
  // It is a workspace, as those of libraries, and not among the tensors that are counted.
  const auto memory = [](std::size_t bytes) {
    const auto length = static_cast<std::int64_t>(bytes);
    count_tensor_bytes(-length);
    try {
      auto tensor = std::make_shared<at::Tensor>(empty_in(Arena::device, length, at::kByte));
      std::byte* const begin = region_of(*tensor, Arena::device).pointer;
      return std::shared_ptr<std::byte>(begin, [tensor = std::move(tensor), length](std::byte*) mutable {
        tensor.reset();
        count_tensor_bytes(length);
      });
    } catch (const c10::Error& error) {
      count_tensor_bytes(length);
      throw Error(ExitCode::resources, fmt::format("no memory for packing parts of tensors: {}", message_of(error)),
                  "use a smaller train.micro_batch, or parallel.transport host");
    }
  };
  return {.kernels = exchange_kernels_on(static_cast<at::DeviceType>(device.tensor_type)),
          .memory = memory,
          .nccl = nccl_in_use()};
}

}  // namespace lockstep
