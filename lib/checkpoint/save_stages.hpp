// One save from the folder to the commit, in stages: what a rank does by itself, then what all of them exchange. The
// former may happen on another thread. Who asks for saves: checkpoint/save.hpp.
#pragma once

#include "checkpoint/background_work.hpp"
#include "checkpoint/collected_state.hpp"
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
  Save(Communicator& ranks, SaveRequest request, SavePlan& prepared, double start_s)
      : ranks_(ranks),
        request_(std::move(request)),
        prepared_(prepared),
        collected_(prepared.collected),
        plan_(prepared.plan),
        start_s_(start_s) {}

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
  bool is_done(bool wait);  // Collective
  void end_stage();         // Collective: once it is done
  void go_on_to_writing();  // Collective: from a stage that was started, which need not be done
  bool committed() const { return stage_ == Stage::committed; }
  bool at_writing() const { return stage_ == Stage::writing; }
  SaveReport report() const;
  void abandon() noexcept;

 private:
  enum class Stage { staging, laying_out, writing, sealing, committing, committed };
  void enter() const;
  std::string text() const;
  void work();
  void exchange();
  bool leads(std::size_t file) const { return plan_.files[file].leader == ranks_.rank(); }
  void make_room();
  void empty_trash() const;
  void make_folders();
  void stamp();
  void tell_offsets();
  void write();
  void compare();
  void seal();
  void gather_sealed();
  void commit();

  Communicator& ranks_;
  const SaveRequest request_;
  SavePlan& prepared_;
  const CollectedState& collected_;
  const CheckpointPlan& plan_;
  const double start_s_;
  Stage stage_ = Stage::staging;
  BackgroundWork background_;
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
  std::string told_;                               // rank 0's report
};

}  // namespace lockstep
