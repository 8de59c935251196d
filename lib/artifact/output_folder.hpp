// A folder that appears whole or not at all: filled under a hidden name beside its place and renamed into it.
#pragma once

#include "base/files.hpp"

#include <string>

namespace lockstep {

/// What happens if the folder is there already. An earlier export is one that holds `marker`; other folders are never
/// replaced.
enum class ExistingExport { refuse, replace };

/// Throws Error(usage) if the place is taken. Writes nothing. Local.
void check_place(const Path& place, ExistingExport existing, const std::string& marker);

class OutputFolder {
 public:
  /// Creates the hidden folder, after removing what a killed export left in it. Throws Error(usage) if the place is
  /// taken or another process is writing there, Error(storage). Local.
  OutputFolder(Path place, ExistingExport existing, std::string marker);
  /// Removes the hidden folder unless it was published.
  ~OutputFolder();
  OutputFolder(const OutputFolder&) = delete;
  OutputFolder& operator=(const OutputFolder&) = delete;

  const Path& staged() const { return staged_; }  // where to write
  /// Synchronises and renames into place; an earlier export is exchanged and then removed. Throws Error(storage).
  void publish();

 private:
  Path place_;
  Path staged_;
  ExistingExport existing_;
  std::string marker_;
  FileDescriptor lock_;
};

}  // namespace lockstep
