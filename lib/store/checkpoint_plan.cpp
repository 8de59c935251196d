#include "store/checkpoint_plan.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <map>

namespace lockstep {

namespace {

std::uint64_t box_bytes(const StoredTensor& tensor, const Box& box) {
  return static_cast<std::uint64_t>(elements(box)) * static_cast<std::uint64_t>(size_of(tensor.layout.dtype));
}

constexpr int most_in_folder = 512;  // parts: file systems slow down where folders are large

std::string part_path(Pattern pattern, int part, int parts) {
  const std::string name = fmt::format("part-{:04}.h5", part);
  return parts <= most_in_folder ? fmt::format("{}/{}", name_of(pattern), name)
                                 : fmt::format("{}/{:04}/{}", name_of(pattern), part / most_in_folder, name);
}

// Whoever holds a box may write it where the save compares what they hold; where it does not, pieces of several ranks
// could make up a tensor that none of them has. So the first holder of each box writes it: those are one replica.
std::vector<Holding> by_one_replica(std::vector<Holding> holdings) {
  for (Holding& holding : holdings) holding.ranks.resize(1);
  return holdings;
}

std::vector<Rank> all_ranks(int count) {
  std::vector<Rank> ranks(static_cast<std::size_t>(count));
  for (int rank = 0; rank < count; ++rank) ranks[static_cast<std::size_t>(rank)] = rank;
  return ranks;
}

}  // namespace

std::vector<Holding> holders_of(const StoredTensor& tensor, const StoredComponent& component, int ranks) {
  const Box box = whole(tensor.layout.global);
  if (empty(box)) return {};
  if (component.pattern == Pattern::global) return {{box, {0}}};
  if (is_values(tensor) && tensor.cell.empty()) return {{box, all_ranks(ranks)}};
  if (tensor.cell.empty()) return holdings_of(tensor.layout);
  const auto cell = std::find_if(component.cells.begin(), component.cells.end(),
                                 [&](const auto& entry) { return entry.first == tensor.cell; });
  invariant(cell != component.cells.end(), "a cell-owned tensor belongs to a cell of its component");
  return {{box, cell->second}};
}

std::vector<int> parts_of_ranks(const World& world, std::optional<int> ranks_per_file) {
  std::vector<int> parts(static_cast<std::size_t>(world_size(world.mesh)), 0);
  if (!ranks_per_file && !world.node_of_rank.empty()) return world.node_of_rank;
  for (std::size_t rank = 0; ranks_per_file && rank < parts.size(); ++rank)
    parts[rank] = static_cast<int>(rank) / *ranks_per_file;
  return parts;
}

CheckpointPlan plan_checkpoint(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                               const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank) {
  const auto ranks = static_cast<int>(part_of_rank.size());
  const int parts = *std::ranges::max_element(part_of_rank) + 1;
  CheckpointPlan plan;
  plan.tensors = std::move(tensors);
  plan.ranks = ranks;
  std::uint64_t bytes = 0;
  std::vector<int> element_bytes;
  for (const StoredTensor& tensor : plan.tensors) {
    bytes += box_bytes(tensor, whole(tensor.layout.global));
    element_bytes.push_back(size_of(tensor.layout.dtype));
  }
  std::map<std::string, const StoredComponent*> by_key;
  for (const StoredComponent& component : components) by_key[component.key] = &component;
  std::vector<std::vector<Holding>> writers;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const bool compared = by_key.at(plan.tensors[i].component)->validation >= Validation::tensor;
    writers.push_back(compared ? holdings[i] : by_one_replica(holdings[i]));
  }
  plan.pieces = plan_writes(writers, element_bytes, ranks, piece_limit(bytes, ranks));

  std::map<std::string, PlannedFile> files;
  for (std::size_t number = 0; number < plan.pieces.size(); ++number) {
    const WriteItem& piece = plan.pieces[number];
    const Pattern pattern = by_key.at(plan.tensors[piece.tensor].component)->pattern;
    PlannedFile& file = files[part_path(pattern, part_of_rank[static_cast<std::size_t>(piece.writer)], parts)];
    file.pieces.push_back(number);
    const auto writer = std::ranges::lower_bound(file.writers, piece.writer);
    if (writer == file.writers.end() || *writer != piece.writer) file.writers.insert(writer, piece.writer);
  }
  plan.file_of_piece.resize(plan.pieces.size());
  for (auto& [path, file] : files) {
    file.path = path;
    file.leader = file.writers.front();
    for (const std::size_t piece : file.pieces) plan.file_of_piece[piece] = plan.files.size();
    plan.files.push_back(std::move(file));
  }
  return plan;
}

std::uint64_t total_bytes(const CheckpointPlan& plan) {
  std::uint64_t bytes = 0;
  for (const WriteItem& piece : plan.pieces) bytes += box_bytes(plan.tensors[piece.tensor], piece.box);
  return bytes;
}

Hash128 hash_of(const CheckpointPlan& plan) {
  StreamHash hash;
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const WriteItem& piece = plan.pieces[i];
    const StoredTensor& tensor = plan.tensors[piece.tensor];
    hash.add(fmt::format("{} {} {} {} {} {}\n", full_name(tensor), to_text(tensor.layout.global),
                         name_of(tensor.layout.dtype), to_text(piece.box), piece.writer,
                         plan.files[plan.file_of_piece[i]].path));
  }
  return hash.digest();
}

PartPiece part_piece(const CheckpointPlan& plan, std::size_t piece) {
  const StoredTensor& tensor = plan.tensors[plan.pieces[piece].tensor];
  return {full_name(tensor), tensor.layout.global, tensor.layout.dtype, plan.pieces[piece].box};
}

std::vector<PartPiece> part_pieces(const CheckpointPlan& plan, const PlannedFile& file) {
  std::vector<PartPiece> pieces;
  for (const std::size_t piece : file.pieces) pieces.push_back(part_piece(plan, piece));
  return pieces;
}

std::string describe_plan(const CheckpointPlan& plan) {
  std::vector<std::uint64_t> load(static_cast<std::size_t>(plan.ranks), 0);
  std::string text = fmt::format("{} in {}, {} in {} by {}\n", counted(std::ssize(plan.tensors), "tensor"),
                                 counted(std::ssize(plan.pieces), "piece"), human_bytes(total_bytes(plan)),
                                 counted(std::ssize(plan.files), "file"), counted(plan.ranks, "writer"));
  for (const PlannedFile& file : plan.files) {
    std::uint64_t bytes = 0;
    for (const std::size_t piece : file.pieces)
      bytes += box_bytes(plan.tensors[plan.pieces[piece].tensor], plan.pieces[piece].box);
    text += fmt::format("  {}  {}, {}\n", file.path, counted(std::ssize(file.pieces), "piece"), human_bytes(bytes));
  }
  for (const WriteItem& piece : plan.pieces)
    load[static_cast<std::size_t>(piece.writer)] += box_bytes(plan.tensors[piece.tensor], piece.box);
  const std::uint64_t most = *std::max_element(load.begin(), load.end());
  const double mean = static_cast<double>(total_bytes(plan)) / plan.ranks;
  text += fmt::format("largest writer / mean: {:.3f}\n", mean > 0 ? static_cast<double>(most) / mean : 1.0);
  return text;
}

}  // namespace lockstep
