// References to datasets of the Hugging Face hub, and the list of their files at a commit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct HubReference {
  std::string id;        // OWNER/NAME
  std::string revision;  // branch, tag or commit; empty: not named
  std::string files;     // pattern of file names; empty: the files of a split
  std::string text() const;
};

/// Parses "hf://datasets/OWNER/NAME[@REVISION][/PATTERN]" or "OWNER/NAME"; nothing for other words. Throws Error(usage)
/// for other words that begin with "hf:".
std::optional<HubReference> hub_reference(const std::string& word);

struct HubFile {
  std::string name;  // path in the dataset, with slashes
  std::uint64_t bytes = 0;
  std::string etag;  // name of its blob: SHA-256 of a large file, otherwise git's hash
  bool has_sha256() const { return etag.size() == 64; }
};

struct HubListing {
  std::string commit;  // 40 hex digits
  std::vector<HubFile> files;
};

bool is_commit(std::string_view revision);  // 40 hex digits

}  // namespace lockstep
