#include "checkpoint/save_plan.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "comm/together.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string>

namespace lockstep {

namespace {

// Everything that a plan needs to be carried out by this rank.
void complete(SavePlan& save, Rank rank) {
  const CollectedState& collected = save.collected;
  std::map<std::string, Validation> validation;
  for (const StoredComponent& component : collected.components) validation[component.key] = component.validation;
  for (const WriteItem& piece : save.plan.pieces) {
    save.compared.push_back(validation.at(collected.tensors[piece.tensor].component));
    const std::vector<Holding>& holdings = collected.holdings[piece.tensor];
    const auto holding =
        std::ranges::find_if(holdings, [&](const Holding& candidate) { return contains(candidate.box, piece.box); });
    invariant(holding != holdings.end(), "a piece lies in a box that a rank holds");
    save.holders.push_back(static_cast<int>(holding->ranks.size()));
    const bool held = std::ranges::binary_search(holding->ranks, rank);
    save.held.push_back(held);
    // Its own pieces are written, those that other ranks write are fingerprinted, or looked at in part.
    if (piece.writer == rank || (held && save.compared.back() != Validation::none))
      save.mine.push_back(save.held.size() - 1);
  }
  save.images.resize(save.plan.files.size());
}

// Each rank has planned for itself: together they write each element once, and ranks of a part mean the same pieces.
void check_plans(Communicator& ranks, const SavePlan& save, std::int64_t digest) {
  std::vector<std::uint64_t> written(save.plan.tensors.size(), 0);
  for (const WriteItem& piece : save.plan.pieces)
    if (piece.writer == ranks.rank()) written[piece.tensor] += static_cast<std::uint64_t>(elements(piece.box));
  ranks.all_reduce(std::as_writable_bytes(std::span(written)), DType::u64, Reduce::sum);
  const bool alike = save.part->all_reduce(digest, Reduce::min) == save.part->all_reduce(digest, Reduce::max);
  together(ranks, "planning the checkpoint", [&] {
    for (std::size_t i = 0; i < written.size(); ++i)
      if (written[i] != static_cast<std::uint64_t>(elements(save.plan.tensors[i].layout.global)))
        fail(ExitCode::bug, "the pieces of {} have {} of its {} elements", full_name(save.plan.tensors[i]), written[i],
             elements(save.plan.tensors[i].layout.global));
    if (!alike) fail(ExitCode::bug, "ranks that write the same part have different plans");
  });
}

std::string files_led_by(const CheckpointPlan& plan, Rank rank) {
  Json files = Json::array();
  for (const PlannedFile& file : plan.files) {
    if (file.leader != rank) continue;
    Json tensors = Json::array();
    for (const TensorRun& run : file.tensors) tensors.push_back(Json::array({run.first, run.count, run.by_layout}));
    files.push_back(Json{{"path", file.path}, {"writers", file.writers}, {"tensors", std::move(tensors)}});
  }
  return to_text(files);
}

// Rank 0 learns of the files of all parts.
void gather_files(Communicator& ranks, SavePlan& save, const std::string& mine, const RunStorage& storage) {
  const std::vector<std::string> told = ranks.gather(mine, 0);
  together(ranks, "planning the checkpoint", [&] {
    save.led.resize(told.size());
    for (std::size_t rank = 0; rank < told.size(); ++rank) {
      for (const Json& entry : parse_json(told[rank], "a rank's files")) {
        PlannedFile file{.path = entry.at("path"),
                         .leader = static_cast<Rank>(rank),
                         .pieces = {},
                         .writers = entry.at("writers"),
                         .tensors = {},
                         .node = storage.node_of(static_cast<Rank>(rank))};
        for (const Json& run : entry.at("tensors")) file.tensors.push_back({run.at(0), run.at(1), run.at(2)});
        save.files.push_back(std::move(file));
      }
    }
    std::ranges::stable_sort(save.files, {}, &PlannedFile::path);  // as each leader has its own
    for (std::size_t i = 0; i < save.files.size(); ++i)
      save.led[static_cast<std::size_t>(save.files[i].leader)].push_back(i);
  });
}

// What goes where nodes have storage of their own.
void find_storage(Communicator& ranks, SavePlan& save, const RunStorage& storage) {
  save.bytes_here = total_bytes(save.plan);
  if (storage.is_shared()) return;
  std::uint64_t written = 0;
  for (const WriteItem& piece : save.plan.pieces)
    if (piece.writer == ranks.rank())
      written += static_cast<std::uint64_t>(elements(piece.box)) *
                 static_cast<std::uint64_t>(size_of(save.plan.tensors[piece.tensor].layout.dtype));
  const int number = storage.of_rank[static_cast<std::size_t>(ranks.rank())];
  const auto here = ranks.split(number, fmt::format("storage {}", number));
  save.bytes_here = static_cast<std::uint64_t>(here->all_reduce(static_cast<std::int64_t>(written), Reduce::sum));
  const bool keeps = storage.keeps(ranks.rank());
  save.keepers = ranks.split(keeps ? 0 : 1, "keepers");
  if (!keeps) save.keepers.reset();
}

}  // namespace

std::unique_ptr<SavePlan> plan_save(Communicator& ranks, const World& world, const std::vector<Component>& components,
                                    std::optional<int> ranks_per_file, const RunStorage& storage,
                                    const std::function<void()>& before, std::unique_ptr<SavePlan> earlier) {
  std::vector<int> part_of_rank;
  std::vector<Rank> neighbours;  // that write to the same parts
  together(ranks, "planning the checkpoint", [&] {
    before();
    if (ranks_per_file.value_or(1) < 1) fail(ExitCode::bug, "ranks_per_file is {}", *ranks_per_file);
    part_of_rank = parts_of_ranks(world, ranks_per_file, storage);
    if (std::ssize(part_of_rank) != ranks.size())
      fail(ExitCode::bug, "a mesh of {} ranks for a communicator of {}", part_of_rank.size(), ranks.size());
    for (Rank rank = 0; rank < ranks.size(); ++rank)
      if (part_of_rank[static_cast<std::size_t>(rank)] == part_of_rank[static_cast<std::size_t>(ranks.rank())])
        neighbours.push_back(rank);
  });
  std::optional<CollectedState> known;
  if (earlier && earlier->part_of_rank == part_of_rank) known = std::move(earlier->collected);
  bool taken_over = false;
  CollectedState collected = collect_state(
      ranks, world, components, Contents::tensors_and_values, [] {}, neighbours, std::move(known), &taken_over);
  if (taken_over) {
    earlier->collected = std::move(collected);
    return earlier;
  }
  auto save = std::make_unique<SavePlan>();
  save->collected = std::move(collected);
  save->part_of_rank = std::move(part_of_rank);
  const int part = save->part_of_rank[static_cast<std::size_t>(ranks.rank())];
  std::int64_t digest = 0;
  std::string files;
  together(ranks, "planning the checkpoint", [&] {
    save->plan = plan_part(save->collected.tensors, save->collected.holdings, save->collected.components,
                           save->part_of_rank, part);
    complete(*save, ranks.rank());
    digest = static_cast<std::int64_t>(hash_of(save->plan).low);
    files = files_led_by(save->plan, ranks.rank());
  });
  save->part = ranks.split(part, fmt::format("part {}", part));
  check_plans(ranks, *save, digest);
  gather_files(ranks, *save, files, storage);
  find_storage(ranks, *save, storage);
  return save;
}

std::vector<Region> memory_of_rank(const SavePlan& save) {
  std::vector<Region> memory;
  for (const std::size_t i : save.mine) {
    const WriteItem& piece = save.plan.pieces[i];
    memory.push_back(memory_of(save.collected, piece.tensor, piece.box));
  }
  return memory;
}

}  // namespace lockstep
