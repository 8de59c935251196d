#include "store/checkpoint_plan.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

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

std::vector<Holding> holders_of(const StoredTensor& tensor, const StoredComponent& component, int ranks,
                                std::span<const Rank> among) {
  const bool by_rank = component.pattern != Pattern::global && tensor.cell.empty() && !is_values(tensor);
  if (!by_rank) {
    std::vector<Holding> holdings = holders_of(tensor, component, ranks);
    std::erase_if(holdings, [&](const Holding& holding) {
      return std::ranges::none_of(among, [&](Rank rank) { return std::ranges::binary_search(holding.ranks, rank); });
    });
    return holdings;
  }
  std::vector<Holding> holdings;
  for (const Rank rank : among) {
    const Box box = box_of(tensor.layout, rank);
    if (!empty(box) && std::ranges::find(holdings, box, &Holding::box) == holdings.end())
      holdings.push_back({box, replicas_of(tensor.layout, rank)});
  }
  return holdings;
}

std::vector<int> parts_of_ranks(const World& world, std::optional<int> ranks_per_file, const RunStorage& storage) {
  if (!storage.is_shared()) {
    const int most = ranks_per_file.value_or(std::numeric_limits<int>::max());
    std::map<int, int> ranks_so_far;                  // by storage
    std::map<std::pair<int, int>, int> part_numbers;  // by storage, and by part within it
    std::vector<int> parts;
    for (const int number : storage.of_rank) {
      const std::pair key(number, ranks_so_far[number]++ / most);
      parts.push_back(part_numbers.try_emplace(key, static_cast<int>(part_numbers.size())).first->second);
    }
    return parts;
  }
  std::vector<int> parts(static_cast<std::size_t>(world_size(world.mesh)), 0);
  if (!ranks_per_file && !world.node_of_rank.empty()) return world.node_of_rank;
  for (std::size_t rank = 0; ranks_per_file && rank < parts.size(); ++rank)
    parts[rank] = static_cast<int>(rank) / *ranks_per_file;
  return parts;
}

namespace {

bool is_by_layout(const StoredTensor& tensor, const WriteItem& piece) {
  return tensor.cell.empty() && tensor.holding == TensorHolding::layout &&
         piece.writer < world_size(tensor.layout.mesh) && contains(box_of(tensor.layout, piece.writer), piece.box);
}

std::vector<TensorRun> tensors_of(const CheckpointPlan& plan, const PlannedFile& file) {
  std::vector<TensorRun> runs;
  for (std::size_t i = 0; i < file.pieces.size();) {
    const std::size_t tensor = plan.pieces[file.pieces[i]].tensor;
    bool by_layout = true;
    for (; i < file.pieces.size() && plan.pieces[file.pieces[i]].tensor == tensor; ++i)
      by_layout = by_layout && is_by_layout(plan.tensors[tensor], plan.pieces[file.pieces[i]]);
    if (runs.empty() || runs.back().first + runs.back().count != tensor || runs.back().by_layout != by_layout)
      runs.push_back({tensor, 0, by_layout});
    ++runs.back().count;
  }
  return runs;
}

CheckpointPlan make_plan(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                         const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank,
                         std::optional<int> part) {
  const auto ranks = static_cast<int>(part_of_rank.size());
  const int parts = *std::ranges::max_element(part_of_rank) + 1;
  CheckpointPlan plan;
  plan.tensors = std::move(tensors);
  plan.ranks = ranks;
  std::vector<int> element_bytes;
  for (const StoredTensor& tensor : plan.tensors) element_bytes.push_back(size_of(tensor.layout.dtype));
  plan.piece_bytes = piece_limit(total_bytes(plan), ranks);
  std::map<std::string, const StoredComponent*> by_key;
  for (const StoredComponent& component : components) by_key[component.key] = &component;
  std::set<std::string> folders;
  std::vector<std::vector<Holding>> writers;
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const StoredComponent& component = *by_key.at(plan.tensors[i].component);
    const bool compared = component.validation >= Validation::rolling;
    writers.push_back(compared ? holdings[i] : by_one_replica(holdings[i]));
    if (empty(whole(plan.tensors[i].layout.global))) continue;
    for (int first = 0; first < parts; first += most_in_folder)
      folders.insert(Path(part_path(component.pattern, first, parts)).parent_path().string());
  }
  plan.folders.assign(folders.begin(), folders.end());
  plan.pieces = plan_writes(writers, element_bytes, plan.piece_bytes);

  std::map<std::string, PlannedFile> files;
  for (std::size_t number = 0; number < plan.pieces.size(); ++number) {
    const WriteItem& piece = plan.pieces[number];
    const int of_writer = part_of_rank[static_cast<std::size_t>(piece.writer)];
    if (part && of_writer != *part) continue;
    const Pattern pattern = by_key.at(plan.tensors[piece.tensor].component)->pattern;
    PlannedFile& file = files[part_path(pattern, of_writer, parts)];
    file.pieces.push_back(number);
    const auto writer = std::ranges::lower_bound(file.writers, piece.writer);
    if (writer == file.writers.end() || *writer != piece.writer) file.writers.insert(writer, piece.writer);
  }
  plan.file_of_piece.assign(plan.pieces.size(), elsewhere);
  for (auto& [path, file] : files) {
    file.path = path;
    file.leader = file.writers.front();
    file.tensors = tensors_of(plan, file);
    for (const std::size_t piece : file.pieces) plan.file_of_piece[piece] = plan.files.size();
    plan.files.push_back(std::move(file));
  }
  return plan;
}

}  // namespace

CheckpointPlan plan_checkpoint(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                               const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank) {
  CheckpointPlan plan = make_plan(std::move(tensors), holdings, components, part_of_rank, {});
  std::vector<std::vector<Box>> boxes(plan.tensors.size());
  for (const WriteItem& piece : plan.pieces) boxes[piece.tensor].push_back(piece.box);
  for (std::size_t i = 0; i < plan.tensors.size(); ++i)
    if (const auto defect = coverage_defect(plan.tensors[i].layout.global, boxes[i]))
      fail(ExitCode::bug, "the pieces of {} do not cover it: {}", full_name(plan.tensors[i]), *defect);
  return plan;
}

CheckpointPlan plan_part(std::vector<StoredTensor> tensors, const std::vector<std::vector<Holding>>& holdings,
                         const std::vector<StoredComponent>& components, const std::vector<int>& part_of_rank,
                         int part) {
  return make_plan(std::move(tensors), holdings, components, part_of_rank, part);
}

std::uint64_t total_bytes(const CheckpointPlan& plan) {
  std::uint64_t bytes = 0;
  for (const StoredTensor& tensor : plan.tensors) bytes += box_bytes(tensor, whole(tensor.layout.global));
  return bytes;
}

Hash128 hash_of(const CheckpointPlan& plan) {
  StreamHash hash;
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const WriteItem& piece = plan.pieces[i];
    const StoredTensor& tensor = plan.tensors[piece.tensor];
    hash.add(fmt::format("{} {} {} {} {} {}\n", full_name(tensor), to_text(tensor.layout.global),
                         name_of(tensor.layout.dtype), to_text(piece.box), piece.writer,
                         plan.file_of_piece[i] == elsewhere ? "" : plan.files[plan.file_of_piece[i]].path));
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
