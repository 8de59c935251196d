#include "data/dataset.hpp"

#include "base/error.hpp"
#include "chat/chat_template_file.hpp"
#include "data/packing_index.hpp"
#include "store/listed_path.hpp"
#include "tokenizer/tokenizer_files.hpp"
#include "tokenizer/tokenizers.hpp"

#include <set>
#include <string_view>
#include <vector>

namespace lockstep {

namespace {
constexpr const char* manifest_name = "DATASET.json";
}

namespace {

// What belongs to a shard and lies in the dataset's folder: its file, and, if that has the form of another program,
// what such programs want beside it.
void insert_files(const ShardEntry& shard, std::set<Path>& files) {
  if (stays_below(shard.file)) files.insert(shard.file);
  if (!shard.outside) return;
  files.insert(shard.outside->documents);
  if (!stays_below(shard.file)) return;
  files.insert(Path(shard.file).replace_extension(".idx"));
  for (const char* const suffix : {".index", ".metadata"}) files.insert(shard.file + suffix);
}

}  // namespace

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
    std::set<Path> written{manifest_name, input_memory_name};
    for (const std::string_view name : tokenizer_file_names) written.insert(Path("tokenizer") / name);
    for (const Path& path : additional_template_files(folder / "tokenizer"))
      written.insert(path.lexically_relative(folder));
    for (const Path& file : list_folder(folder))
      if (is_packing_file(file.filename())) written.insert(file.filename());
    const DatasetManifest manifest = read_dataset_manifest(folder);
    for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
      for (const ShardEntry& shard : manifest.of(split).shards) insert_files(shard, written);
    }
    return written;
  };
  return {.name = "dataset", .marker = manifest_name, .files = files};
}

namespace {

bool is_dataset(const Path& folder) { return is_there(folder / manifest_name); }

/// What a name may be a part of, and what may be a part of it.
struct NamedFolder {
  Path clean;  // without the slash at its end
  Path above;
  std::vector<Path> datasets_below;
};

NamedFolder look_around(const Path& folder) {
  NamedFolder named;
  named.clean = folder.has_filename() ? folder : folder.parent_path();
  named.above = named.clean.has_parent_path() ? named.clean.parent_path() : Path(".");
  if (!is_folder(folder)) return named;
  for (const Path& entry : list_folder(folder)) {
    if (!entry.filename().string().starts_with('.') && is_folder(entry) && is_dataset(entry))
      named.datasets_below.push_back(entry);
  }
  return named;
}

[[noreturn]] void refuse(const Path& folder) {
  const auto refuse_for = [](const Path& named, const std::string& what, const Path& meant) {
    throw Error(ExitCode::input, fmt::format("{} is {}", named.string(), what),
                fmt::format("name the dataset itself: {}", meant.string()));
  };
  const auto [clean, above, below] = look_around(folder);
  if (clean.filename() == manifest_name && is_dataset(above)) refuse_for(clean, "a file of a dataset", above);
  if (is_dataset(above)) refuse_for(clean, "a part of a dataset", above);
  if (!below.empty()) {
    refuse_for(
        clean,
        below.size() == 1 ? "a folder with a dataset in it" : fmt::format("a folder of {} datasets", below.size()),
        below.front());
  }
  throw Error(ExitCode::input, fmt::format("no prepared dataset at {}", folder.string()),
              fmt::format("make it with: prepare-data INPUT… --output {} --data.tokenizer bytes|chars|TOKENIZER",
                          folder.string()));
}

}  // namespace

bool leads_to_dataset(const Path& path) {
  const NamedFolder named = look_around(path);
  return is_dataset(path) || is_dataset(named.above) || !named.datasets_below.empty() || moved_away_from(path);
}

Dataset open_dataset(const Path& folder) {
  if (const auto earlier = moved_away_from(folder)) {
    throw Error(
        ExitCode::input,
        fmt::format("no prepared dataset at {}: prepare-data was killed while it replaced it", folder.string()),
        fmt::format("start prepare-data again, or bring it back with: mv {} {}", earlier->string(), folder.string()));
  }
  if (!is_dataset(folder)) refuse(folder);
  return {folder, read_dataset_manifest(folder)};
}

}  // namespace lockstep
