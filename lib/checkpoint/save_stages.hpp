// One save from the folder to the commit, in stages: what a rank does by itself, then what all of them exchange. The
// former may happen on another thread. Who asks for saves: checkpoint/save.hpp.
#pragma once

#include "base/json.hpp"
#include "checkpoint/background_work.hpp"
#include "checkpoint/collected_state.hpp"
#include "checkpoint/commit.hpp"
#include "checkpoint/compare_holders.hpp"
#include "checkpoint/save.hpp"
#include "checkpoint/save_plan.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/piece_numbers.hpp"
#include "store/staging.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Each stage is done by all ranks, or fails on all of them. Collective over `ranks` but for what is Local.
class Saver::Save {
 public:
  Save(Communicator& ranks, SaveRequest request, SavePlan& prepared, bool room_is_scarce, double start_s)
      : ranks_(ranks),
        request_(std::move(request)),
        prepared_(prepared),
        collected_(prepared.collected),
        plan_(prepared.plan),
        room_is_scarce_(room_is_scarce),
        start_s_(start_s),
        stage_(request_.storage.is_shared() ? Stage::staging : Stage::clearing) {}

  void agree();
  void find_bytes();
  /// What this rank brings, in the order in which it is written.
  const std::vector<std::span<const std::byte>>& bytes() const { return bytes_; }
  /// From now on these bytes count, of the pieces from `first` on; those of the pieces before are gone.
  void use(std::size_t first, const std::vector<std::span<const std::byte>>& copies) {
    std::fill_n(bytes_.begin(), first, std::span<const std::byte>());
    std::ranges::copy(copies, bytes_.begin() + static_cast<std::ptrdiff_t>(first));
    up_to_ = first + copies.size();
  }
  /// Of the pieces, the first [from, up_to) are written next; a wave is not the last where others are left.
  bool all_in_use() const { return up_to_ == bytes_.size(); }
  void write_wave();

  void do_stage();          // Collective: here and now
  void start_stage();       // Collective: this rank's share beside the caller
  void enter_again();       // Collective: to wait for a stage that was started; its phase and deadline begin anew
  bool is_done(bool wait);  // Collective
  void end_stage();         // Collective: once it is done
  void go_on_to_writing();  // Collective: from a stage that was started, which need not be done
  bool committed() const { return stage_ == Stage::committed; }
  bool at_writing() const { return stage_ == Stage::writing; }
  SaveReport report() const;
  void abandon() noexcept;
  bool lacked_room() const { return lacked_room_; }  // on this rank, of a save that was abandoned. Local

 private:
  enum class Stage {
    clearing,
    staging,
    laying_out,
    writing,
    sealing,
    committing,
    distributing,
    publishing,
    tidying,
    committed
  };
  void enter() const;
  std::string text() const;
  void work();
  void exchange();
  bool leads(std::size_t file) const { return plan_.files[file].leader == ranks_.rank(); }
  void clear();
  void agree_on_room();
  void make_folders();
  Path part_path(std::size_t file) const;
  void stamp();
  void tell_offsets();
  void write();
  void compare();
  void seal();
  void gather_sealed();
  void commit();
  void tell_head();
  void distribute();
  void publish();
  void note_older();
  std::vector<std::int64_t> choose_victims(const Retention& retention, bool committed);
  void choose_retired();
  void tidy();
  void gather_problems();
  void note_report(const std::vector<std::string>& problems);
  bool keeps() const { return request_.storage.keeps(ranks_.rank()); }
  Path checkpoint() const { return checkpoint_folder(request_.run, request_.step); }

  Communicator& ranks_;
  const SaveRequest request_;
  SavePlan& prepared_;
  const CollectedState& collected_;
  const CheckpointPlan& plan_;
  const bool room_is_scarce_;  // whatever the file system counts as free
  const double start_s_;
  Stage stage_;
  bool lacked_room_ = false;
  std::string uuid_;
  Path staging_;
  bool stamped_ = false;                           // the parts that this rank leads
  std::vector<std::span<const std::byte>> bytes_;  // of the pieces of this rank
  std::size_t written_ = 0, up_to_ = 0;            // of these: so many are written, so many may be
  std::vector<std::unique_ptr<PartFile>> parts_;   // by file; open while it is written
  std::vector<PieceRecord> pieces_;                // by piece: of those of this rank and, on a leader, of its files
  std::vector<std::optional<Evidence>> evidence_;  // by piece
  std::uint64_t compared_bytes_ = 0;               // that were read for it; on rank 0, once sealed, by all ranks
  Numbers sealed_;                                 // what this rank sealed
  StagedState state_;                              // whole on rank 0
  std::vector<std::int64_t> retired_;              // before there was room
  Hash128 digest_ = {};                            // of the state, on rank 0
  std::string told_;                               // rank 0's report
  // Where nodes have storage of their own, on its keepers.
  CheckpointHead head_;
  bool has_room_ = true;           // here
  Json older_ = Json::object();    // by step: what is here of the other checkpoints
  bool published_ = false;         // here, and not yet known to be on all
  std::optional<Path> displaced_;  // by the new checkpoint
  std::string problem_;            // behind the commit
  BackgroundWork background_;      // ends before what its thread works on goes
};

}  // namespace lockstep
