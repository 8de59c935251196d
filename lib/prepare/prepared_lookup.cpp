#include "prepare/prepared_lookup.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/json_integer.hpp"
#include "comm/together.hpp"
#include "data/dataset.hpp"
#include "prepare/input_contents.hpp"
#include "prepare/message_format.hpp"
#include "prepare/preparation_key.hpp"
#include "store/token_shards.hpp"
#include "tokenizer/tokenizers.hpp"

#include <algorithm>
#include <optional>

namespace lockstep {

namespace {

/// The sums of the files that a dataset was made of, in their order; nothing where the manifest does not tell them.
std::optional<std::vector<std::uint64_t>> sums_in(const DatasetManifest& manifest) {
  const Json inputs = parse_json(manifest.inputs, "inputs");
  if (!inputs.is_object() || !inputs.contains("files") || !inputs["files"].is_array()) return std::nullopt;
  std::vector<std::uint64_t> sums;
  for (const Json& file : inputs["files"]) {
    if (!file.is_object() || !file.contains("content_sum")) return std::nullopt;
    sums.push_back(integer_from<std::uint64_t>(file["content_sum"]));
  }
  return sums;
}

/// Whether all shards are there, with their sizes. What they hold is compared as training reads it.
bool is_whole(const Path& folder, const DatasetManifest& manifest) {
  const auto is_there_whole = [&](const ShardEntry& shard) {
    return length_of(folder / shard.file) == shard.bytes &&
           (!shard.outside || length_of(folder / shard.outside->documents) == shard.outside->document_bytes);
  };
  return std::ranges::all_of(manifest.train.shards, is_there_whole) &&
         std::ranges::all_of(manifest.validation.shards, is_there_whole);
}

/// Of a folder that holds no dataset that could be read, nothing.
std::optional<DatasetManifest> manifest_in(const Path& folder) {
  if (kind_of(folder / "DATASET.json") != FileKind::file) return std::nullopt;
  try {
    return read_dataset_manifest(folder);
  } catch (const Error& error) {
    if (error.code() != ExitCode::input) throw;
    return std::nullopt;
  }
}

/// The sums that the input has to have, if everything but its content says that the dataset is what would be made.
std::optional<std::vector<std::uint64_t>> sums_wanted(const Path& folder, const PrepareDataOptions& options,
                                                      const std::vector<InputFile>& files) {
  const auto manifest = manifest_in(folder);
  const auto sums = manifest ? sums_in(*manifest) : std::nullopt;
  if (!sums || !manifest->key || sums->size() != files.size()) return std::nullopt;
  const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(options);
  const std::string messages = message_format_hash(options, tokenizer.get());
  if (preparation_key(options, tokenizer.get(), messages, files, *sums) != *manifest->key) return std::nullopt;
  return is_whole(folder, *manifest) ? sums : std::nullopt;
}

}  // namespace

std::unique_ptr<Tokenizer> tokenizer_of(const PrepareDataOptions& options) {
  const TokenizerChoice choice = options.tokenizer_or_bytes();
  if (choice.kind == TokenizerChoice::Kind::chars) return nullptr;
  return make_tokenizer(choice.text(), options.end_of_text.value_or(""), options.special_tokens_in_text());
}

bool holds_prepared(const Path& folder, const Hash128& key) {
  const auto manifest = manifest_in(folder);
  return manifest && manifest->key == key && is_whole(folder, *manifest);
}

PreparedLookup look_for_prepared(Session& session, const Path& folder, const PrepareDataOptions& options,
                                 const std::vector<InputFile>& files) {
  Communicator& world = session.world();
  const std::string told = run_on_rank0(world, "look for the dataset", [&] {
    const auto wanted = sums_wanted(folder, options, files);
    if (!wanted) return to_text(Json());
    const ContentMemory memory = ContentMemory::read(folder / input_memory_name);
    Json sums = Json::array();  // of each file: the wanted one, and the one that it is known to have
    for (std::size_t i = 0; i < files.size(); ++i) {
      const auto known = memory.find(files[i]);
      sums.push_back({(*wanted)[i], known ? Json(*known) : Json()});
    }
    return to_text(sums);
  });
  const Json sums = parse_json(told, "sums of the input");
  if (sums.is_null()) return {};
  std::vector<std::optional<FileStamp>> stamps;
  std::vector<std::optional<std::uint64_t>> known;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (world.rank() == 0) stamps.push_back(stamp_of(files[i]));
    known.push_back(sums[i][1].is_null() ? std::nullopt : std::optional(sums[i][1].get<std::uint64_t>()));
  }
  const InputSums found = complete_sums(session, files, known);
  PreparedLookup result{true, found.bytes_read};
  for (std::size_t i = 0; i < files.size(); ++i)
    result.is_same = result.is_same && found.sums[i] == sums[i][0].get<std::uint64_t>();
  if (!result.is_same || found.bytes_read == 0) return result;
  together(world, "remember the input", [&] {
    if (world.rank() == 0) memory_of(files, stamps, found.sums).write(folder / input_memory_name);
  });
  return result;
}

}  // namespace lockstep
