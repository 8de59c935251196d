// One save from the staging folder to the commit, in stages. In each stage a rank first works alone, possibly on
// another thread; then all ranks exchange the results. The interface of saves: checkpoint/save.hpp.
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

/// Each stage succeeds on all ranks or fails on all of them. Collective over `ranks`, except for members marked Local.
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
  /// Returns the memory of this rank's pieces, in the order in which they are written.
  const std::vector<Region>& memory() const { return memory_; }
  /// Writes the pieces from `first` on from these copies, and forgets the bytes of the pieces before.
  void use(std::size_t first, const std::vector<std::span<const std::byte>>& copies) {
    std::fill_n(bytes_.begin(), first, std::span<const std::byte>());
    std::ranges::copy(copies, bytes_.begin() + static_cast<std::ptrdiff_t>(first));
    up_to_ = first + copies.size();
  }
  /// Returns whether no piece is left after the current wave, [written_, up_to_).
  bool all_in_use() const { return up_to_ == bytes_.size(); }
  void write_wave();

  void do_stage();          // Collective: runs the stage now
  void start_stage();       // Collective: starts this rank's share on another thread
  void enter_again();       // Collective: before waiting for a started stage; its phase and deadline begin again
  bool is_done(bool wait);  // Collective
  void end_stage();         // Collective: after the stage is done
  void go_on_to_writing();  // Collective: waits for the running stage and those before writing
  bool committed() const { return stage_ == Stage::committed; }
  bool at_writing() const { return stage_ == Stage::writing; }
  SaveReport report() const;
  void abandon() noexcept;
  bool lacked_room() const { return lacked_room_; }  // on this rank, in a save that failed. Local

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
  const bool room_is_scarce_;  // even if the file system reports free space
  const double start_s_;
  Stage stage_;
  bool lacked_room_ = false;
  std::string uuid_;
  Path staging_;
  bool stamped_ = false;                           // whether the parts that this rank leads are stamped
  std::vector<Region> memory_;                     // of the pieces of this rank
  std::vector<std::span<const std::byte>> bytes_;  // of these pieces, where the host has them
  std::size_t written_ = 0, up_to_ = 0;            // numbers of pieces: written, and ready to be written
  std::vector<std::unique_ptr<PartFile>> parts_;   // by file; open while it is written
  std::vector<PieceRecord> pieces_;                // by piece: of this rank and, on a leader, of its files
  std::vector<std::optional<Evidence>> evidence_;  // by piece
  std::uint64_t compared_bytes_ = 0;               // read to compare; once sealed, on rank 0 the sum over all ranks
  Numbers sealed_;                                 // results of sealing this rank's parts
  StagedState state_;                              // complete on rank 0
  std::vector<std::int64_t> retired_;              // steps removed to make room, later all that were removed
  Hash128 digest_ = {};                            // of the state, on rank 0
  std::string told_;                               // rank 0's report
  // The following are used with node-local storage, on its keepers.
  CheckpointHead head_;
  bool has_room_ = true;           // on this storage
  Json older_ = Json::object();    // by step: sightings of the other checkpoints on this storage
  bool published_ = false;         // on this storage, while other nodes may still have to publish
  std::optional<Path> displaced_;  // older checkpoint that the new one replaced
  std::string problem_;            // a failure of the clean-up after the commit
  BackgroundWork background_;      // last member: ends before its thread's data is destroyed
};

}  // namespace lockstep
