// The local cache of the Hugging Face hub, in the layout of huggingface_hub. A folder datasets--OWNER--NAME (or
// models--…) has refs, blobs, and snapshots of commits, whose files are links to blobs. We add listings of commits,
// which show whether a snapshot lacks files. Local.
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
  /// The cache lies in HF_HUB_CACHE, or as HF_HOME or XDG_CACHE_HOME say; default: ~/.cache/huggingface/hub.
  explicit HubCache(const std::string& id, HubKind kind = HubKind::dataset);

  const Path& folder() const { return folder_; }  // of the dataset or model
  /// Returns the commit of a revision when it was last fetched; a commit is returned unchanged. Nothing if it was never
  /// fetched.
  std::optional<std::string> commit_of(const std::string& revision) const;
  /// Returns all files of a commit; nothing if they were never listed on this machine.
  std::optional<HubListing> listing(const std::string& commit) const;
  /// Returns the files of the commit that are in the cache.
  HubListing snapshot(const std::string& commit) const;
  Path path_of(const std::string& commit, const std::string& name) const;
  /// Returns whether the file is in the cache, with its length.
  bool has(const std::string& commit, const HubFile& file) const;

  void keep(const HubListing& listing) const;
  void keep(const std::string& revision, const std::string& commit) const;
  /// Puts a file into the cache. `fetch` completes the file at the path that it is given; its hash is compared with the
  /// name of the blob. One process does so at a time; others wait and call `alive`. Throws Error(input) if the bytes do
  /// not have the promised hash, and Error(storage).
  void bring(const std::string& commit, const HubFile& file, const std::function<void(const Path& part)>& fetch,
             const std::function<void()>& alive) const;

 private:
  Path blob_of(const HubFile& file) const { return folder_ / "blobs" / file.etag; }
  void link(const std::string& commit, const HubFile& file) const;
  Path root_;
  Path folder_;
};

/// Returns the folder of a model OWNER/NAME, at revision main of the cache; nothing if `word` is no such name, or if
/// the model is not there.
std::optional<Path> cached_model(const std::string& word);

/// Returns "hf://datasets/OWNER/NAME@COMMIT/FILE" for the path of a file in a snapshot; nothing for other paths.
std::optional<std::string> hub_name_of(const Path& path);

}  // namespace lockstep
