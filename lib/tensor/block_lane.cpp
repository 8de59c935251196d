#include "tensor/block_lane.hpp"

#include "base/error.hpp"
#include "tensor/number_types.hpp"
#include "tensor/unit.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace lockstep {

BlockLane::BlockLane(Transport& transport, int lane, int group, Rank rank)
    : transport_(&transport), lane_(lane), group_(group) {
  const std::vector<Rank>& members = transport.members(group);
  rank_ = static_cast<int>(std::ranges::find(members, rank) - members.begin());
}

void BlockLane::all_reduce(const at::Tensor& x) const {
  transport_->wait(transport_->all_reduce(lane_, group_, bytes_of(x), dtype_of(x.scalar_type()), Reduce::sum));
}

at::Tensor BlockLane::all_gather(const at::Tensor& x) const {
  std::vector<std::int64_t> shape{ranks()};
  for (const std::int64_t length : x.sizes()) shape.push_back(length);
  const at::Tensor all = at::empty(shape, x.options());
  ShardMap map{all.numel(), x.numel(), {}};
  for (int rank = 0; rank < ranks(); ++rank) map.pieces.push_back({{rank * x.numel(), 0, x.numel()}});
  transport_->wait(transport_->all_gather(lane_, group_, bytes_of(x), bytes_of(all), map, dtype_of(x.scalar_type())));
  return all;
}

at::Tensor BlockLane::all_to_all(const at::Tensor& parts) const {
  const at::Tensor received = at::empty(parts.sizes(), parts.options());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks()), parts.numel() / ranks());
  transport_->wait(transport_->all_to_all_v(lane_, group_, bytes_of(parts), counts, bytes_of(received), counts,
                                            dtype_of(parts.scalar_type())));
  return received;
}

}  // namespace lockstep
