// A dataset in the making: a hidden folder beside the final one, which it becomes in one rename. One process owns it.
#pragma once

#include "base/files.hpp"

namespace lockstep {

enum class ExistingDataset { refuse, replace };

class StagedFolder {
 public:
  /// The hidden folder for `target`: /a/b → /a/.b.stage.
  static Path path_for(const Path& target);

  /// Makes the hidden folder, after removing one that a killed process left behind. Throws Error(usage) if the target
  /// exists and may not be replaced (only datasets and empty folders ever are), Error(resources) if another process is
  /// making it, Error(storage).
  StagedFolder(const Path& target, ExistingDataset existing);
  /// Removes the hidden folder unless it was published.
  ~StagedFolder();
  StagedFolder(const StagedFolder&) = delete;
  StagedFolder& operator=(const StagedFolder&) = delete;

  /// Puts the folder into the target's place; a dataset that was there is gone afterwards. Throws Error(storage).
  void publish();

 private:
  void lock();

  Path target_;
  Path path_;
  FileDescriptor lock_;
  bool published_ = false;
};

}  // namespace lockstep
