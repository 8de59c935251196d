// A small dataset written shard by shard, with the stream and the document starts that it must show.
#pragma once

#include "base/files.hpp"
#include "store/token_shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep::test {

struct MadeSplit {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> starts;
  std::vector<std::uint8_t> mask = {};  // of each token, where the manifest has masks
};

/// Documents of the given lengths; token i of the stream is i·7 + 3 modulo `vocabulary`.
inline MadeSplit made_split(const std::vector<std::int64_t>& lengths, std::int64_t vocabulary) {
  MadeSplit split;
  for (const std::int64_t length : lengths) {
    split.starts.push_back(static_cast<std::int64_t>(split.tokens.size()));
    for (std::int64_t i = 0; i < length; ++i)
      split.tokens.push_back(
          static_cast<std::int32_t>((split.tokens.size() * 7 + 3) % static_cast<std::size_t>(vocabulary)));
  }
  return split;
}

/// Writes the split and completes the manifest's entry.
inline void write_split(const Path& folder, DatasetManifest& manifest, DataSplit which, const MadeSplit& split) {
  SplitEntry entry;
  make_folder(folder / name_of(which));
  const auto total = static_cast<std::int64_t>(split.tokens.size());
  for (std::int64_t first = 0; first < total; first += manifest.shard_tokens) {
    const std::int64_t end = std::min(first + manifest.shard_tokens, total);
    const auto starts =
        std::ranges::count_if(split.starts, [&](std::int64_t start) { return start >= first && start < end; });
    const std::string file = fmt::format("{}/tokens-{:05}.h5", name_of(which), entry.shards.size());
    create_shard(folder / file, manifest.token_bytes(), end - first, starts, manifest.masks);
    ShardWriter writer(folder / file, 0, 0);
    for (std::int64_t i = first; i < end; ++i) {
      if (std::ranges::count(split.starts, i) > 0) writer.start_document();
      const auto token = static_cast<std::uint32_t>(split.tokens[static_cast<std::size_t>(i)]);
      if (manifest.masks == TokenMasks::present) {
        writer.append({&token, 1}, {&split.mask[static_cast<std::size_t>(i)], 1});
      } else {
        writer.append({&token, 1});
      }
    }
    entry.shards.push_back(describe_shard(folder / file, writer.finish()));
    entry.shards.back().file = file;
  }
  number_shards(entry);
  entry.tokens = total;
  entry.documents = static_cast<std::int64_t>(split.starts.size());
  (which == DataSplit::train ? manifest.train : manifest.validation) = entry;
}

inline DatasetManifest manifest_for(std::int64_t vocabulary, std::int64_t shard_tokens) {
  DatasetManifest manifest;
  manifest.tokenizer = "bytes";
  manifest.vocabulary = vocabulary;
  manifest.shard_tokens = shard_tokens;
  manifest.options = "{}";
  return manifest;
}

}  // namespace lockstep::test
