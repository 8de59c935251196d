// The operations of a transport on memory of this process's device, from device to device: each queues its work in the
// exchange queue of the device and returns. Their results are those of comm/operations.hpp, except that sums of fp32
// and fp64 are added up in the order of NCCL. Pieces of shards are packed into equal parts; 16-bit sums are not NCCL's:
// each rank receives the operands of its part and adds them up in fp32, in the order of the ranks.
#pragma once

#include "comm/device_ranks.hpp"
#include "comm/exchange_kernels.hpp"
#include "comm/operations.hpp"
#include "device/region.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep {

/// DeviceExchange gives the operations the kernels, the memory and the NCCL of the device in use.
struct DeviceExchange {
  ExchangeKernels kernels = {};
  /// Returns memory of the device for kernels that are queued from now on. Throws Error(resources).
  std::function<std::shared_ptr<std::byte>(std::size_t bytes)> memory = {};
  const NcclTable* nccl = nullptr;  // null: ranks exchange through host memory
  static constexpr std::int64_t packing_bytes = std::int64_t{64} << 20;
  std::int64_t most_packed_bytes = packing_bytes;  // of device memory for one packed operation
};

/// All regions are memory of the device. `ranks` is null where this rank is alone: then pieces are copied or added in
/// place. One thread calls these. Collective over `ranks`. Throw Error(communication), and Error(resources) without
/// memory for packing; after either the ranks cannot go on.
class DeviceOperations {
 public:
  explicit DeviceOperations(DeviceExchange device) : device_(std::move(device)) {}

  void all_reduce(DeviceRanks* ranks, const Region& bytes, DType dtype, Reduce reduce);
  void all_reduce_into(DeviceRanks* ranks, const Region& bytes, DType dtype, const Region& place, SumInto into);
  void all_gather(DeviceRanks* ranks, const Region& shard, const Region& whole, const ShardMap& map, DType dtype);
  void reduce_scatter(DeviceRanks* ranks, const Region& whole, const Region& shard, const ShardMap& map, DType dtype,
                      SumInto into);
  void broadcast(DeviceRanks* ranks, const Region& bytes, int root);
  /// Parts may be empty; a rank sends to itself as much as it receives from itself.
  void exchange(DeviceRanks* ranks, const std::vector<Part<std::byte>>& sent,
                const std::vector<Part<std::byte>>& received);

 private:
  std::byte* packing_memory(std::size_t bytes);
  std::size_t part_of_message(std::size_t wanted, std::size_t parts) const;
  void copy(const std::vector<MemoryCopy>& copies);
  void put_sum(const std::byte* operands, std::int64_t distance, int count, std::int64_t elements, DType dtype,
               std::byte* place, SumInto into);
  void sum_short(DeviceRanks& ranks, const Region& bytes, DType dtype);

  DeviceExchange device_;
  std::shared_ptr<std::byte> memory_;  // for packing; used in the order of the queue
  std::size_t memory_bytes_ = 0;
};

}  // namespace lockstep
