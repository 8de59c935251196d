// Promotion: a checkpoint that nodes have on storage of their own (LocalTier) is copied into the folder of its run,
// which all ranks see, and is a checkpoint there once its manifest is written, last. Copying goes on beside training:
// each file is copied by one rank of a node that has it, on a thread that never communicates, and ranks agree after
// steps, as for a save in the background (checkpoint/save.hpp).
#pragma once

#include "base/files.hpp"
#include "comm/communicator.hpp"
#include "store/retention.hpp"
#include "store/run_storage.hpp"
#include "store/trash.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct PromotionRequest {
  Path run;         // of which rank 0 keeps the folder
  LocalTier local;  // has the checkpoint
  std::int64_t step = 0;
  std::vector<std::int64_t> waiting = {};  // steps that the local tier keeps, too: they are to be promoted later
  Retention retention = {};                // in the folder of the run
  TrashCollector* trash = nullptr;         // of the run, on rank 0: as SaveRequest::trash
  TrashCollector* local_trash = nullptr;   // of the local tier, on its keepers
  bool read_back = false;                  // what was copied is read anew and compared before the manifest is written
  double patience_s = 0;                   // how long a rank looks anew for what others have just made
  std::function<void()> enter = {};        // called as a rank enters; may throw (injection). Local
};

struct PromotionReport {
  Path path;  // in the folder of the run
  std::int64_t step = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::vector<std::int64_t> retired;  // steps whose checkpoints in the folder of the run went
  std::string problem;                // why advice or older ones are as before; the checkpoint is sound all the same
};

class Promoter {
 public:
  /// Local. `ranks` are those that saved, or resumed from, what is promoted.
  explicit Promoter(Communicator& ranks);
  /// Breaks off what is under way, as a kill does: what was copied is a leftover.
  ~Promoter();

  /// Begins to promote a checkpoint; none is under way, nor a save into the folder of the run. Collective. Throws
  /// AgreedError(storage) where nodes do not have all of its files, and what `enter` throws.
  void begin(const PromotionRequest& request);
  /// The same on all ranks. Local.
  bool under_way() const { return current_ != nullptr; }
  /// The step whose checkpoint is under way. Local.
  std::int64_t step() const;
  /// Goes on as far as all ranks have come. Returns the report once the checkpoint is committed, after which the local
  /// tier keeps none up to its step but the newest and those that wait. Collective. On any failure all ranks throw one
  /// AgreedError, what was copied is removed, and the local tier is as it was.
  std::optional<PromotionReport> advance();
  /// Breaks off the promotion that is under way: what was copied is removed, and the local tier is as it was. Returns
  /// false, and does nothing, if all is copied: it is about to be committed. Collective.
  bool break_off();
  /// Bytes that this rank has copied so far. Local.
  std::uint64_t copied_bytes() const;

 private:
  class Promotion;
  Communicator& ranks_;
  std::unique_ptr<Promotion> current_;
};

/// The steps whose checkpoints the local tier has whole and the run does not have, in ascending order. Those that the
/// run has gone on without are left out: a checkpoint of the tier belongs to the run up to the newest that is newer
/// than all of the run, or that the run has from the same save. Collective over `ranks`; the same on all. Throws
/// Error(storage).
std::vector<std::int64_t> unpromoted_steps(Communicator& ranks, const LocalTier& local, const Path& run);

}  // namespace lockstep
