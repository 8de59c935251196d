#include "optim/matrix_exchange.hpp"

#include "architecture/architecture.hpp"
#include "device/device.hpp"
#include "layout/box_runs.hpp"
#include "layout/matrix_owners.hpp"
#include "tensor/arena.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace lockstep {

namespace {

/// A matrix of a unit: which parameter, and which one of its stack.
using MatrixId = std::pair<std::size_t, std::int64_t>;

/// Elements side by side, in one matrix and in the buffers of the rank that has them.
struct Piece {
  MatrixId matrix;
  std::int64_t in_matrix = 0, in_buffer = 0, length = 0;
};

/// What a rank has of the unit, in the order of its buffers.
std::vector<Piece> pieces_of(const Unit& unit, Rank rank) {
  std::vector<Piece> pieces;
  for (std::size_t index = 0; index < unit.parameters().size(); ++index) {
    const Parameter& parameter = *unit.parameters()[index];
    const std::int64_t one = elements(matrix_shape(parameter.description()));
    const Box box = box_of(parameter.layout(), rank);
    if (empty(box)) continue;
    for_each_run(box, whole(parameter.layout().global), box, [&](const BoxRun& run) {
      for (std::int64_t done = 0; done < run.length;) {
        const std::int64_t at = run.in_a + done, length = std::min(run.length - done, one - at % one);
        pieces.push_back({{index, at / one}, at % one, parameter.shard_offset() + run.in_b + done, length});
        done += length;
      }
    });
  }
  return pieces;
}

enum class Copy { together, apart };
/// Between stretches of `spread` and `packed`, where they lie one behind the other.
template <class Stretches>
void copy_stretches(const Stretches& stretches, const at::Tensor& packed, const at::Tensor& spread, Copy how) {
  const auto size = static_cast<std::size_t>(packed.element_size());
  const Region dense = region_of(packed, Arena::device), loose = region_of(spread, Arena::device);
  std::vector<RegionCopy> copies;
  std::size_t done = 0;
  for (const auto& stretch : stretches) {
    const std::size_t bytes = static_cast<std::size_t>(stretch.length) * size;
    const Region one = part_of(dense, done, bytes),
                 other = part_of(loose, static_cast<std::size_t>(stretch.first) * size, bytes);
    copies.push_back(how == Copy::apart ? RegionCopy{one, other} : RegionCopy{other, one});
    done += bytes;
  }
  this_device().copy(copies, DeviceQueue::compute);
}

std::int64_t sum(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

MatrixExchange::MatrixExchange(const Unit& unit, const BlockLane& lane) : lane_(&lane) {
  const std::size_t ranks = lane.members().size();
  std::vector<std::vector<Piece>> pieces;
  std::map<MatrixId, int> owners;
  for (const Rank rank : lane.members()) {
    pieces.push_back(pieces_of(unit, rank));
    for (const Piece& piece : pieces.back()) owners.emplace(piece.matrix, 0);
  }
  std::vector<Shape> shapes;
  for (const auto& [matrix, owner] : owners)
    shapes.push_back(matrix_shape(unit.parameters()[matrix.first]->description()));
  const std::vector<int> chosen = matrix_owners(shapes, static_cast<int>(ranks));
  std::map<MatrixId, std::int64_t> first_of;  // of this rank's
  std::size_t next = 0;
  for (auto& [matrix, owner] : owners) {
    owner = chosen[next];
    if (owner == lane.rank()) {
      first_of[matrix] = owned_elements_;
      owned_.push_back(shapes[next]);
      owned_elements_ += elements(shapes[next]);
    }
    ++next;
  }
  sent_.resize(ranks);
  received_.resize(ranks);
  const std::vector<Piece>& mine = pieces[static_cast<std::size_t>(lane.rank())];
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const Piece& piece : mine) {
      if (owners.at(piece.matrix) != static_cast<int>(rank)) continue;
      parts_.push_back({piece.in_buffer, piece.length});
      sent_[rank] += piece.length;
    }
    for (const Piece& piece : pieces[rank]) {
      if (owners.at(piece.matrix) != lane.rank()) continue;
      wholes_.push_back({first_of.at(piece.matrix) + piece.in_matrix, piece.length});
      received_[rank] += piece.length;
    }
  }
}

at::Tensor MatrixExchange::to_owners(const at::Tensor& parts) const {
  const at::Tensor packed = at::empty({sum(sent_), 1}, parts.options());
  copy_stretches(parts_, packed, parts, Copy::together);
  const at::Tensor received = lane_->all_to_all_rows(packed, sent_, received_);
  at::Tensor matrices = at::empty({owned_elements_}, parts.options());
  copy_stretches(wholes_, received, matrices, Copy::apart);
  return matrices;
}

void MatrixExchange::back(const at::Tensor& matrices, const at::Tensor& parts) const {
  const at::Tensor packed = at::empty({sum(received_), 1}, parts.options());
  copy_stretches(wholes_, packed, matrices, Copy::together);
  copy_stretches(parts_, lane_->all_to_all_rows(packed, received_, sent_), parts, Copy::apart);
}

}  // namespace lockstep
