#include "tensor/block_lane.hpp"

#include "base/error.hpp"
#include "tensor/arena.hpp"
#include "tensor/number_types.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <numeric>

namespace lockstep {

BlockLane::BlockLane(Transport& transport, int lane, int group, Rank rank, Rows rows)
    : transport_(&transport), lane_(lane), group_(group), rows_(rows) {
  const std::vector<Rank>& members = transport.members(group);
  rank_ = static_cast<int>(std::ranges::find(members, rank) - members.begin());
}

void BlockLane::all_reduce(const at::Tensor& x) const {
  transport_->wait(transport_->all_reduce(lane_, group_, region_of(x), dtype_of(x.scalar_type()), Reduce::sum));
}

at::Tensor BlockLane::all_gather(const at::Tensor& x) const {
  std::vector<std::int64_t> shape{ranks()};
  for (const std::int64_t length : x.sizes()) shape.push_back(length);
  const at::Tensor all = at::empty(shape, x.options());
  ShardMap map{all.numel(), x.numel(), {}};
  for (int rank = 0; rank < ranks(); ++rank) map.pieces.push_back({{rank * x.numel(), 0, x.numel()}});
  transport_->wait(transport_->all_gather(lane_, group_, region_of(x), region_of(all), map, dtype_of(x.scalar_type())));
  return all;
}

at::Tensor BlockLane::all_to_all(const at::Tensor& parts) const {
  const at::Tensor received = at::empty(parts.sizes(), parts.options());
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(ranks()), parts.numel() / ranks());
  transport_->wait(transport_->all_to_all_v(lane_, group_, region_of(parts), counts, region_of(received), counts,
                                            dtype_of(parts.scalar_type())));
  return received;
}

at::Tensor BlockLane::all_to_all_rows(const at::Tensor& rows, const std::vector<std::int64_t>& sent,
                                      const std::vector<std::int64_t>& received) const {
  const auto elements_of = [&](const std::vector<std::int64_t>& counts) {
    std::vector<std::int64_t> elements;
    for (const std::int64_t count : counts) elements.push_back(count * rows.size(1));
    return elements;
  };
  const at::Tensor into =
      at::empty({std::accumulate(received.begin(), received.end(), std::int64_t{0}), rows.size(1)}, rows.options());
  transport_->wait(transport_->all_to_all_v(lane_, group_, region_of(rows), elements_of(sent), region_of(into),
                                            elements_of(received), dtype_of(rows.scalar_type())));
  return into;
}

BlockLane::Shifted BlockLane::start_shift(const at::Tensor& x) const {
  const at::Tensor value = at::empty(x.sizes(), x.options());
  return {x, value, transport_->shift(lane_, group_, region_of(x), region_of(value), dtype_of(x.scalar_type()))};
}

at::Tensor BlockLane::ended(Shifted shifted) const {
  transport_->wait(shifted.ticket);
  return shifted.value;
}

ShardMap BlockLane::row_map(std::int64_t rows, std::int64_t columns) const {
  const std::int64_t each = own_rows(rows);
  ShardMap map{rows * columns, each * columns, {}};
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::int64_t first = std::min(rank * each, rows), count = std::min(each, rows - first);
    map.pieces.push_back({});
    if (count > 0) map.pieces.back().push_back({first * columns, 0, count * columns});
  }
  return map;
}

at::Tensor BlockLane::gather_rows(const at::Tensor& own, std::int64_t rows) const {
  invariant(own.dim() == 2 && own.size(0) == own_rows(rows), "the input of a gather has this rank's rows");
  const at::Tensor all = at::empty({rows, own.size(1)}, own.options());
  transport_->wait(transport_->all_gather(lane_, group_, region_of(own), region_of(all), row_map(rows, own.size(1)),
                                          dtype_of(own.scalar_type())));
  return all;
}

at::Tensor BlockLane::own_part(const at::Tensor& of_rows, std::int64_t otherwise) const {
  const std::int64_t rows = of_rows.numel(), each = own_rows(rows);
  const std::int64_t first = std::min(rank() * each, rows), count = std::min(each, rows - first);
  const at::Tensor own = at::full({each}, otherwise, of_rows.options());
  own.narrow(0, 0, count).copy_(of_rows.narrow(0, first, count));
  return own;
}

at::Tensor BlockLane::scatter_rows(const at::Tensor& x) const {
  const at::Tensor own = at::zeros({own_rows(x.size(0)), x.size(1)}, x.options());
  reduce_scatter_rows_into(x, own);
  return own;
}

void BlockLane::reduce_scatter_rows_into(const at::Tensor& x, const at::Tensor& onto) const {
  invariant(x.dim() == 2 && onto.size(0) == own_rows(x.size(0)), "the output of a scatter has this rank's rows");
  transport_->wait(transport_->reduce_scatter(lane_, group_, region_of(x), region_of(onto),
                                              row_map(x.size(0), x.size(1)), dtype_of(x.scalar_type()),
                                              {SumInto::Mode::add}));
}

}  // namespace lockstep
