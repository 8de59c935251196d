// A dataset of the Hugging Face hub: how a word names it, and its files at one commit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct HubReference {
  std::string id;        // OWNER/NAME
  std::string revision;  // a branch, a tag, a commit; empty: none is named
  std::string files;     // a pattern of names of files; empty: those of a split
  std::string text() const;
};

/// What "hf://datasets/OWNER/NAME[@REVISION][/PATTERN]" or the bare "OWNER/NAME" names; nothing for any other word.
/// Throws Error(usage) for other words that begin with hf:.
std::optional<HubReference> hub_reference(const std::string& word);

struct HubFile {
  std::string name;  // within the dataset, with slashes
  std::uint64_t bytes = 0;
  std::string etag;  // its blob has this name: SHA-256 of a large file, else a hash of git
  bool has_sha256() const { return etag.size() == 64; }
};

struct HubListing {
  std::string commit;  // 40 hex digits
  std::vector<HubFile> files;
};

bool is_commit(std::string_view revision);  // 40 hex digits

}  // namespace lockstep
