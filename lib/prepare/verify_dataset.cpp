#include "prepare/verify_dataset.hpp"

#include "base/json.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "comm/together.hpp"
#include "data/dataset.hpp"

#include <string>
#include <vector>

namespace lockstep {

namespace {

std::vector<const ShardEntry*> shards_of(const DatasetManifest& manifest) {
  std::vector<const ShardEntry*> shards;
  for (const SplitEntry* const split : {&manifest.train, &manifest.validation}) {
    for (const ShardEntry& shard : split->shards) shards.push_back(&shard);
  }
  return shards;
}

/// Runs a check; what it finds wrong with the data is one more problem.
template <class Check>
void note(std::vector<std::string>& problems, const Check& check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) throw;
    problems.emplace_back(error.what());
  }
}

/// What the shards do not show one by one: the tokenizer, and sums over shards.
void check_whole(const Dataset& dataset, std::vector<std::string>& problems) {
  note(problems, [&] { (void)dataset.tokenizer(); });
  if (problems.empty()) {
    for (const DataSplit split : {DataSplit::train, DataSplit::validation})
      note(problems, [&] { TokenStream(dataset.folder, dataset.manifest, split); });
  }
}

}  // namespace

int verify_dataset(const Path& folder, Session& session, Output& output) {
  Communicator& world = session.world();
  Dataset dataset;
  together(world, "open the dataset", [&] { dataset = open_dataset(folder); });
  const std::vector<const ShardEntry*> shards = shards_of(dataset.manifest);
  std::vector<std::string> problems;  // of this rank
  const auto size = static_cast<std::size_t>(world.size());
  for (std::size_t first = 0; first < shards.size(); first += size) {
    session.enter(Phase::data);
    together(world, "verify the dataset", [&] {
      end_if_stopped(session);
      const std::size_t mine = first + static_cast<std::size_t>(world.rank());
      if (mine < shards.size())
        note(problems, [&] { verify_shard_file(dataset.folder, dataset.manifest, *shards[mine]); });
    });
  }
  together(world, "verify the dataset", [&] {
    if (world.rank() == 0) check_whole(dataset, problems);
  });
  Json all = Json::array();
  for (const std::string& part : world.all_gather(to_text(Json(problems)))) {
    for (const Json& problem : parse_json(part, "problems")) all.push_back(problem);
  }
  std::uint64_t bytes = 0;
  for (const ShardEntry* const shard : shards) bytes += shard->bytes;
  if (world.rank() == 0 && output.common().json) {
    output.print_json({{"dataset", folder.string()}, {"shards", shards.size()}, {"bytes", bytes}, {"problems", all}});
  } else if (world.rank() == 0) {
    std::string text;
    for (const Json& problem : all) text += problem.get<std::string>() + "\n";
    text += fmt::format("{}: {} of {}: {}\n", folder.string(), counted(std::ssize(shards), "shard"), human_bytes(bytes),
                        all.empty() ? "all hashes match DATASET.json" : "damaged: prepare or copy it again");
    output.print(text);
  }
  return static_cast<int>(all.empty() ? ExitCode::done : ExitCode::verdict);
}

}  // namespace lockstep
