// packing-scale FOLDER ROUNDS: makes shards of 10 million documents and prints as JSON lines the least times to pack
// them, to write the index and to open it, and how full rows are.
#include "base/error.hpp"
#include "base/random.hpp"
#include "bench/measured.hpp"
#include "bench/timed.hpp"
#include "data/packing_index.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace lockstep;
using lockstep::test::least_ms;
using lockstep::test::print;

namespace {

constexpr std::int64_t documents = 10'000'000, shard_tokens = 20'000'000, length = 256;

/// Lengths as those of web pages, scaled down so that the shards stay small: most are short, some fill a row.
std::int64_t drawn_length(const RandomStream& random, std::int64_t document) {
  const double at = random.uniform(static_cast<std::uint64_t>(document));
  return 2 + static_cast<std::int64_t>(4 / (at + 0.02));
}

DatasetManifest make_shards(const Path& folder) {
  const RandomStream random(1, "packing-scale");
  std::vector<std::int64_t> starts(documents);
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < documents; ++i) {
    starts[static_cast<std::size_t>(i)] = tokens;
    tokens += drawn_length(random, i);
  }
  DatasetManifest manifest;
  manifest.tokenizer = "bytes";
  manifest.vocabulary = 256;
  manifest.shard_tokens = shard_tokens;
  manifest.options = "{}";
  manifest.train.tokens = tokens;
  manifest.train.documents = documents;
  make_folder(folder / "train");
  const std::vector<std::uint32_t> zeros(1 << 20);
  auto start = starts.begin();
  for (std::int64_t first = 0; first < tokens; first += shard_tokens) {
    const std::int64_t end = std::min(first + shard_tokens, tokens);
    const auto behind = std::lower_bound(start, starts.end(), end);
    const std::string file = fmt::format("train/tokens-{:05}.h5", manifest.train.shards.size());
    create_shard(folder / file, 2, end - first, behind - start);
    ShardWriter writer(folder / file, 0, 0);
    for (std::int64_t at = first; at < end;) {
      if (start != behind && *start == at) {
        writer.start_document();
        ++start;
      }
      const std::int64_t up_to = start == behind ? end : *start;
      for (; at < up_to; at += std::min<std::int64_t>(up_to - at, std::ssize(zeros)))
        writer.append(
            std::span(zeros).first(std::min<std::size_t>(zeros.size(), static_cast<std::size_t>(up_to - at))));
    }
    manifest.train.shards.push_back(describe_shard(folder / file, writer.finish()));
    manifest.train.shards.back().file = file;
  }
  number_shards(manifest.train);
  return manifest;
}

void measure(const Path& folder, int rounds) {
  const Path made = folder / "packing-scale";
  std::filesystem::remove_all(made);
  const DatasetManifest manifest = make_shards(made);
  const TokenStream stream(made, manifest, DataSplit::train);
  const int all_threads = static_cast<int>(std::thread::hardware_concurrency());
  const std::pair<const char*, PackingMethod> methods[] = {{"none", PackingMethod::none},
                                                           {"sequential", PackingMethod::sequential},
                                                           {"multipack", PackingMethod::multipack},
                                                           {"best_fit", PackingMethod::best_fit}};
  for (const auto& [name, method] : methods) {
    const PackingSettings settings{.method = method, .length = length, .multiple = 1, .group = 100000};
    for (const int threads : {1, all_threads}) {
      std::optional<Packing> packing;
      const double pack_ms = least_ms(rounds, [&] { packing = make_packing(stream, settings, threads); });
      const std::string identity = identity_of(settings, manifest.train);
      const Path file = made / packing_file_name(identity);
      const double write_ms = least_ms(1, [&] { write_packing(file, identity, *packing); });
      const double positions = static_cast<double>(packing->rows()) * static_cast<double>(length);
      print({{"method", name},
             {"threads", threads},
             {"documents", documents},
             {"rows", packing->rows()},
             {"fill", static_cast<double>(packing->counts().packed_labels) / positions},
             {"pack_ms", pack_ms},
             {"write_ms", write_ms},
             {"open_ms", least_ms(rounds, [&] { open_packing(file, identity); })}});
    }
  }
  std::filesystem::remove_all(made);
}

}  // namespace

int main(int argc, char** argv) { return bench::measured("packing-scale", argc, argv, measure); }
