// dataset-scale FOLDER ROUNDS: makes a dataset of 100,000 shards, most of them further names of a few files, and prints
// as JSON lines what DATASET.json weighs and the least times to open the dataset as a rank of train does, and to read
// a sample in a shard that was not read before.
#include "base/error.hpp"
#include "bench/measured.hpp"
#include "bench/timed.hpp"
#include "data/dataset.hpp"
#include "store/token_shards.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <vector>

using namespace lockstep;
using lockstep::test::least_ms;
using lockstep::test::print;

namespace {

constexpr std::int64_t shards = 100'000;
constexpr std::int64_t names_of_a_file = 20'000;  // a file system bounds them
constexpr std::int64_t shard_tokens = 1 << 20;

DatasetManifest make_dataset(const Path& folder) {
  DatasetManifest manifest;
  manifest.tokenizer = "bytes";
  manifest.vocabulary = 257;
  manifest.shard_tokens = shard_tokens;
  manifest.options = "{}";
  make_folder(folder / "train");
  ShardEntry made;
  for (std::int64_t i = 0; i < shards; ++i) {
    const Path file = fmt::format("train/tokens-{:05}.h5", i);
    if (i % names_of_a_file == 0) {
      create_shard(folder / file, manifest.token_bytes(), shard_tokens, 1);  // sparse: tokens are never written
      ShardWriter first(folder / file, 0, 0);
      first.start_document();
      made = describe_shard(folder / file, first.finish());
      made.file = file;
    } else {
      std::filesystem::create_hard_link(folder / made.file, folder / file);
    }
    manifest.train.shards.push_back(made);
    manifest.train.shards.back().file = file;
  }
  number_shards(manifest.train);
  manifest.train.tokens = shards * shard_tokens;
  manifest.train.documents = shards;
  publish_file(folder / "DATASET.json", to_text(manifest));
  return manifest;
}

void measure(const Path& folder, int rounds) {
  std::filesystem::remove_all(folder);
  make_dataset(folder);
  std::optional<TokenStream> stream;
  const double open_ms = least_ms(rounds, [&] { stream.emplace(open_dataset(folder).open(DataSplit::train)); });
  std::int64_t shard = 0;
  std::vector<std::int32_t> sample(2049);
  const double read_ms = least_ms(100, [&] { stream->copy(++shard * shard_tokens + 17, sample); });
  print({{"shards", shards},
         {"manifest_bytes", *length_of(folder / "DATASET.json")},
         {"open_ms", open_ms},
         {"first_read_ms", read_ms}});
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::measured("dataset-scale", argc, argv,
                         [](const Path& folder, int rounds) { measure(folder / "dataset-scale", rounds); });
}
