// What is of the hub on this machine, where and as huggingface_hub keeps it: datasets--OWNER--NAME with refs,
// snapshots of commits, whose names are links, and blobs; beside these, listings of commits of our own, by which a
// snapshot that lacks files shows. Local.
#pragma once

#include "base/files.hpp"
#include "remote/hub_files.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace lockstep {

enum class HubKind { dataset, model };

class HubCache {
 public:
  /// In the folder that HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME say, else ~/.cache/huggingface/hub.
  explicit HubCache(const std::string& id, HubKind kind = HubKind::dataset);

  const Path& folder() const { return folder_; }  // of the dataset
  /// The commit of a revision when it was last fetched; a commit is itself. Nothing if it never was.
  std::optional<std::string> commit_of(const std::string& revision) const;
  /// All files of a commit; nothing if nobody has listed it here.
  std::optional<HubListing> listing(const std::string& commit) const;
  /// Those that are here.
  HubListing snapshot(const std::string& commit) const;
  Path path_of(const std::string& commit, const std::string& name) const;
  /// Whether the file is here, with its length.
  bool has(const std::string& commit, const HubFile& file) const;

  void keep(const HubListing& listing) const;
  void keep(const std::string& revision, const std::string& commit) const;
  /// Brings a file here by `fetch`, which makes the file of a name the one that is wanted, from the bytes on that it
  /// has; its hash is compared with the name of the blob. One process does so at a time, others wait and call
  /// `alive`. Throws Error(input) for other bytes than promised, Error(storage).
  void bring(const std::string& commit, const HubFile& file, const std::function<void(const Path& part)>& fetch,
             const std::function<void()>& alive) const;

 private:
  Path blob_of(const HubFile& file) const { return folder_ / "blobs" / file.etag; }
  void link(const std::string& commit, const HubFile& file) const;
  Path root_;
  Path folder_;
};

/// The folder of a model OWNER/NAME, as main of the cache has it; nothing if `word` is no such name, or it is not
/// there.
std::optional<Path> cached_model(const std::string& word);

/// "hf://datasets/OWNER/NAME@COMMIT/FILE" of the path of a file of a snapshot; nothing for other paths.
std::optional<std::string> hub_name_of(const Path& path);

}  // namespace lockstep
