// The files of datasets.
#include "base/error.hpp"
#include "base/json.hpp"
#include "data/packing_index.hpp"
#include "data/sample_source.hpp"
#include "fuzz/targets.hpp"
#include "store/token_shards.hpp"

#include <algorithm>
#include <memory>

namespace lockstep::test {

namespace {

/// A dataset of two shards and a validation split of one; its manifest.
DatasetManifest make_dataset(const Path& folder) {
  DatasetManifest manifest;
  manifest.tokenizer = "bytes";
  manifest.vocabulary = 257;
  manifest.end_of_text = 256;
  manifest.shard_tokens = 600;
  manifest.masks = TokenMasks::present;
  manifest.options = R"({"text_field": "text"})";
  for (const DataSplit split : {DataSplit::train, DataSplit::validation}) {
    SplitEntry& entry = split == DataSplit::train ? manifest.train : manifest.validation;
    make_folder(folder / name_of(split));
    for (const std::int64_t tokens :
         split == DataSplit::train ? std::vector<std::int64_t>{600, 50} : std::vector<std::int64_t>{40}) {
      const std::string file = fmt::format("{}/tokens-{:05}.h5", name_of(split), entry.shards.size());
      create_shard(folder / file, manifest.token_bytes(), tokens, 2, manifest.masks);
      ShardWriter writer(folder / file, 0, 0);
      const std::vector<std::uint32_t> ids(static_cast<std::size_t>(tokens / 2), 65);
      for (int document = 0; document < 2; ++document) {
        writer.start_document();
        writer.append(ids, std::vector<std::uint8_t>(ids.size(), 1));
      }
      entry.shards.push_back(describe_shard(folder / file, writer.finish()));
      entry.shards.back().file = file;
      entry.tokens += tokens;
      entry.documents += 2;
    }
    number_shards(entry);
  }
  return manifest;
}

/// Everything that training asks of a stream.
void read_stream(const Path& folder, const DatasetManifest& manifest, DataSplit split) {
  const TokenStream stream(folder, manifest, split);
  for (const ShardEntry& shard : manifest.of(split).shards) verify_shard_file(folder, manifest, shard);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(stream.tokens()));
  stream.copy(0, ids);
  for (const std::int32_t id : ids)
    require(id >= 0 && id < manifest.vocabulary,
            fmt::format("the stream holds the id {}, and ids end at {}", id, manifest.vocabulary));
  std::vector<std::uint8_t> mask(ids.size());
  stream.copy_mask(0, mask);
  require(std::ranges::none_of(mask, [](std::uint8_t value) { return value > 1; }), "a mask holds more than 0 and 1");
  std::int64_t before = -1;
  const std::vector<std::int64_t> starts = stream.document_starts(0, stream.tokens());
  for (const std::int64_t start : starts) {
    require(start > before && start < stream.tokens(),
            "a document starts outside the stream, or they are out of order");
    before = start;
  }
  for (std::int64_t shard = 0; shard < stream.shards(); ++shard) stream.verify_shard(shard);
}

std::string with_self_hash(std::string text, Dice&) {
  Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return text;
  document.erase("self_hash");
  document["self_hash"] = to_hex(hash128(to_text(document)));
  return to_text(document, 2);
}

Target dataset_manifest_target(const Path& folder) {
  const DatasetManifest manifest = make_dataset(folder);
  Target target{.name = "DATASET.json",
                .seeds = {to_text(manifest)},
                .words = {"end_of_text", "shards", "../", "tokens-00000.h5", "train/", "0"},
                .names = {folder.string()},
                .seal = with_self_hash,
                .read = {}};
  refuse(target, "/shard_tokens", 0);
  refuse(target, "/token_bytes", 0);
  refuse(target, "/token_bytes", 8);
  refuse(target, "/tokenizer/vocabulary", 1);
  refuse(target, "/tokenizer/vocabulary", -1);
  refuse(target, "/tokenizer/end_of_text", 257);
  refuse(target, "/tokenizer/hash", "none");
  refuse(target, "/splits/train/shards/1/tokens", -50);
  refuse(target, "/splits/train/shards/1/documents", std::int64_t{1} << 62);
  refuse(target, "/splits/train/shards/1/first_token", 599);
  refuse(target, "/splits/train/shards/1/first_document", 3);
  refuse(target, "/splits/train/shards/0/file", "../elsewhere.h5");
  refuse(target, "/splits/train/shards/0/bytes", -1.0);
  refuse(target, "/tokenizer/end_of_text", 18446744073709551616.0);
  refuse(target, "/shard_tokens", 1e26);
  target.refused.push_back(std::string(100'000, '['));
  target.read = [folder](const std::string& text) {
    put_file(folder / "DATASET.json", text);
    const DatasetManifest read = read_dataset_manifest(folder);
    read_stream(folder, read, DataSplit::train);
    read_stream(folder, read, DataSplit::validation);
    const std::string printed = to_text(read);
    put_file(folder / "DATASET.json", printed);
    require(to_text(read_dataset_manifest(folder)) == printed, "a manifest reads back as another");
  };
  return target;
}

Target token_shard_target(const Path& folder) {
  DatasetManifest manifest = make_dataset(folder);
  const std::string shard = read_file(folder / "train/tokens-00001.h5");
  manifest.train = {.tokens = 50, .documents = 2, .text_bytes = 0, .shards = {manifest.train.shards.back()}};
  number_shards(manifest.train);
  Target target{
      .name = "token shard",
      .seeds = {shard},
      .names = {"tokens-00001.h5"},
      .made = either(strange_hdf5(folder / "made.h5", {"/tokens", "/documents", "/mask"}), damaged_headers(shard)),
      .read = {}};
  target.read = [folder, manifest](const std::string& bytes) mutable {
    put_file(folder / "train/tokens-00001.h5", bytes);
    manifest.train.shards.front().bytes = bytes.size();
    manifest.train.shards.front().hash = hash128(bytes);
    read_stream(folder, manifest, DataSplit::train);
  };
  return target;
}

/// The hash of the content keeps strangers out; what is let in must fill rows.
Target packing_target(const Path& folder) {
  const DatasetManifest manifest = make_dataset(folder);
  const auto stream = std::make_shared<TokenStream>(folder, manifest, DataSplit::train);
  const PackingSettings settings{.method = PackingMethod::best_fit, .length = 64, .multiple = 1, .group = 3};
  const std::string identity = identity_of(settings, manifest.train);
  const Path file = keep_packing({folder}, identity, make_packing(*stream, settings, 1));
  const std::string sound = read_file(file);
  Target target{.name = "packing",
                .seeds = {sound},
                .names = {file.filename().string()},
                .made = either(strange_hdf5(folder / "made.h5", {"/about", "/hash", "/starts", "/begins", "/labels"}),
                               damaged_headers(sound)),
                .read = {}};
  target.read = [=](const std::string& bytes) {
    put_file(file, bytes);
    const PackedSource source(*stream, open_packing(file, identity), settings);
    std::vector<std::int32_t> tokens(64), labels(64), positions(64);
    for (std::int64_t sample = 0; sample < source.samples(); ++sample) {
      SampleRow row{tokens, labels, positions};
      source.fill(sample, row);
      require(row.valid_tokens == source.cost(sample), "a row has other labels than it takes");
    }
  };
  return target;
}

}  // namespace

std::vector<Target> store_targets(const Path& folder) {
  return {dataset_manifest_target(folder / "dataset"), token_shard_target(folder / "shard"),
          packing_target(folder / "packing")};
}

}  // namespace lockstep::test
