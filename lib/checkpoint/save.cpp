#include "checkpoint/save.hpp"

#include "base/error.hpp"
#include "base/run_clock.hpp"
#include "checkpoint/save_plan.hpp"
#include "checkpoint/save_stages.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "device/device.hpp"

#include <algorithm>

namespace lockstep {

namespace {

/// Bytes of the state of a device that are copied at once by a save that nothing goes on beside.
constexpr std::uint64_t device_state_at_once = 256 << 20;

}  // namespace

Saver::Saver(Communicator& ranks) : ranks_(ranks) {}
Saver::~Saver() = default;

// What the last save agreed on stays valid as long as all ranks describe their state as they did then.
void Saver::prepare(const std::vector<Component>& components, const SaveRequest& request) {
  plan_ = plan_save(
      ranks_, request.world, components, request.ranks_per_file, request.storage,
      [&] {
        if (request.enter) request.enter(Phase::save_plan);
        if (request.step < 0) fail(ExitCode::bug, "a save of the negative step {}", request.step);
      },
      std::move(plan_));
}

// A failure is that of all ranks, wherever it came: nothing of the save remains.
template <class Work>
void Saver::or_abandon(const Work& work) {
  try {
    work();
  } catch (const AgreedError& error) {
    current_->abandon();
    const std::int64_t lacked_room = current_->lacked_room() ? 1 : 0;
    room_is_scarce_ = ranks_.all_reduce(lacked_room, Reduce::max) == 1 || room_is_scarce_;
    current_.reset();
    plan_.reset();
    if (error.code() != ExitCode::input) throw;
    // What a save reads are files that it has just written: where they are gone or changed, storage failed.
    throw AgreedError(Error(ExitCode::storage, error.what(), error.hint()), error.owner());
  } catch (...) {
    current_->abandon();
    current_.reset();
    plan_.reset();
    throw;
  }
}

void Saver::begin_save(const std::vector<Component>& components, const SaveRequest& request) {
  invariant(!under_way(), "one save at a time");
  const double start_s = run_seconds();
  prepare(components, request);
  current_ = std::make_unique<Save>(ranks_, request, *plan_, room_is_scarce_, start_s);
  or_abandon([&] {
    current_->agree();
    together(ranks_, "choosing the pieces of the checkpoint", [&] { current_->find_bytes(); });
  });
}

SaveReport Saver::save(const std::vector<Component>& components, const SaveRequest& request) {
  if (!this_device().properties().is_host) {
    begin(components, request, device_state_at_once);
    std::optional<SaveReport> report;
    while (!report) report = advance(true);
    return *report;
  }
  begin_save(components, request);
  or_abandon([&] {
    while (!current_->committed()) current_->do_stage();
  });
  SaveReport report = current_->report();
  current_.reset();
  return report;
}

void Saver::take_memory(const std::vector<Region>& pieces, std::uint64_t memory) {
  together(ranks_, "taking memory for a copy of the state", [&] {
    std::uint64_t largest = 0;
    for (const Region& piece : pieces) largest = std::max<std::uint64_t>(largest, piece.bytes);
    const std::uint64_t room = Snapshot::room_for(pieces);
    snapshot_.reserve(memory == 0 ? room : std::min(room, std::max(memory, largest)));
  });
}

void Saver::make_ready(const std::vector<Component>& components, SaveRequest request, std::uint64_t memory) {
  invariant(!under_way(), "one save at a time");
  request.enter = {};  // which is for saves
  prepare(components, request);
  take_memory(memory_of_rank(*plan_), memory);
}

void Saver::begin(const std::vector<Component>& components, const SaveRequest& request, std::uint64_t memory) {
  const double start_s = run_seconds();
  begin_save(components, request);
  or_abandon([&] {
    const std::vector<Region> pieces = current_->memory();
    take_memory(pieces, memory);
    std::size_t copied = 0;
    waves_ = 0;
    current_->start_stage();  // folders are made while the state is copied
    while (true) {
      together(ranks_, "copying the state", [&] {
        const std::vector<std::span<const std::byte>> copies = snapshot_.take(std::span(pieces).subspan(copied));
        current_->use(copied, copies);
        copied += copies.size();
      });
      ++waves_;
      current_->go_on_to_writing();
      const std::int64_t left = copied < pieces.size() ? 1 : 0;
      if (ranks_.all_reduce(left, Reduce::max) == 0) break;
      current_->write_wave();
    }
    current_->start_stage();
  });
  stall_seconds_ = run_seconds() - start_s;
}

std::optional<SaveReport> Saver::advance(bool to_the_end) {
  invariant(under_way(), "a save is under way");
  std::optional<SaveReport> report;
  or_abandon([&] {
    if (to_the_end) current_->enter_again();
    while (current_->is_done(to_the_end)) {
      current_->end_stage();
      if (current_->committed()) {
        report = current_->report();
        return;
      }
      current_->start_stage();
      if (!to_the_end) return;
    }
  });
  if (report) current_.reset();
  return report;
}

}  // namespace lockstep
