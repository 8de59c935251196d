#include "data/dataset.hpp"

#include "base/error.hpp"
#include "corpus/tokenizer_files.hpp"
#include "corpus/tokenizers.hpp"

#include <set>
#include <string_view>

namespace lockstep {

TokenStream Dataset::open(DataSplit split) const {
  if (manifest.of(split).tokens == 0) {
    throw Error(ExitCode::input, fmt::format("{} has no {} split", folder.string(), name_of(split)),
                "prepare the dataset again with --data.validation hash:FRACTION or tail:FRACTION");
  }
  return TokenStream(folder, manifest, split);
}

std::unique_ptr<Tokenizer> Dataset::tokenizer() const {
  auto tokenizer = load_tokenizer(folder / "tokenizer");
  if (tokenizer->hash() != manifest.tokenizer_hash) {
    fail(ExitCode::input, "{} is not the tokenizer that made the tokens: its hash is {}, DATASET.json says {}",
         (folder / "tokenizer").string(), to_hex(tokenizer->hash()), to_hex(manifest.tokenizer_hash));
  }
  return tokenizer;
}

OutputKind dataset_output() {
  const auto files = [](const Path& folder) {
    std::set<Path> written{"DATASET.json"};
    for (const std::string_view name : tokenizer_file_names) written.insert(Path("tokenizer") / name);
    const DatasetManifest manifest = read_dataset_manifest(folder);
    for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
      for (const ShardEntry& shard : manifest.of(split).shards) written.insert(shard.file);
    }
    return written;
  };
  return {.name = "dataset", .marker = "DATASET.json", .files = files};
}

Dataset open_dataset(const Path& folder, const std::string& command) {
  if (const auto earlier = moved_away_from(folder)) {
    throw Error(
        ExitCode::input,
        fmt::format("no prepared dataset at {}: prepare-data was killed while it replaced it", folder.string()),
        fmt::format("start prepare-data again, or bring it back with: mv {} {}", earlier->string(), folder.string()));
  }
  if (!is_there(folder / "DATASET.json")) {
    throw Error(ExitCode::input, fmt::format("no prepared dataset at {}", folder.string()),
                "make it with: " +
                    (command.empty() ? fmt::format("prepare-data TEXT… --output {}", folder.string()) : command));
  }
  return {folder, read_dataset_manifest(folder)};
}

}  // namespace lockstep
