// What the Hugging Face hub says of a dataset: its list of files, also as the cache keeps it, and the header of its
// README.md.
#include "base/error.hpp"
#include "fuzz/targets.hpp"
#include "remote/hub_listing.hpp"
#include "remote/hub_splits.hpp"

#include <string>

namespace lockstep::test {

namespace {

constexpr const char* answer =
    R"({"id": "o/n", "sha": "0123456789012345678901234567890123456789", "siblings": [
        {"rfilename": "README.md", "size": 12, "blobId": "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
        {"rfilename": "data/train.parquet", "size": 9, "blobId": "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
         "lfs": {"size": 7, "pointerSize": 130, "sha256": "0123456789012345678901234567890123456789012345678901234567890123"}}]})";

constexpr const char* readme = R"(---
license: mit
configs:
- config_name: small
  default: true
  data_files:
  - split: train
    path: ["small/*.jsonl", 'train-0000[0-1]-of-00002.jsonl']
  - {split: test, path: t.jsonl}
- config_name: large
  data_dir: ./large
---
# a title
)";

void list(const std::string& text) {
  const HubListing listing = hub_listing(text, "list");
  const HubListing again = kept_listing(text_of(listing), listing.commit, "list");
  require(text_of(again) == text_of(listing), "a listing is kept as another");
  for (const HubFile& file : listing.files)
    require(!file.name.starts_with('/') && ("/" + file.name + "/").find("/../") == std::string::npos,
            "a name leads out of the folder");
}

void choose(const std::string& text) {
  const HubDatasetFiles files{"o/n",
                              {"README.md", "large/train.jsonl", "small/a.jsonl", "t.jsonl",
                               "train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"},
                              text};
  const auto names =
      files_of_split(files, {}, [](std::string_view name) { return name.ends_with(".jsonl") ? "J" : ""; });
  require(!names.empty(), "a split of no files");
}

}  // namespace

std::vector<Target> remote_targets(const Path&) {
  const std::string small = R"([["a/b.jsonl", 3, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]])";
  Target listing{.name = "listing of the hub", .seeds = {answer}, .names = {"list"}, .read = list};
  Target kept{.name = "listing of the cache", .seeds = {small}, .names = {"list"}, .read = [](const std::string& text) {
                kept_listing(text, std::string(40, '0'), "list");
              }};
  Target header{.name = "README.md of a dataset",
                .seeds = {readme, "# a title\n"},
                .words = {"configs:", "data_files:", "path:", "split:", "**/", "default: true"},
                .names = {"o/n"},
                .read = choose};
  return {std::move(listing), std::move(kept), std::move(header)};
}

}  // namespace lockstep::test
