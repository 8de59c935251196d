#include "checkpoint/save.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "checkpoint/catalogue.hpp"
#include "comm/failure.hpp"
#include "comm/together.hpp"
#include "store/box_runs.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/staging.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace lockstep {

namespace {

// Numbers as ranks exchange them.
using Numbers = std::vector<std::uint64_t>;

std::string encode(const Numbers& numbers) { return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::uint64_t)}; }

Numbers decode(const std::string& bytes) {
  Numbers numbers(bytes.size() / sizeof(std::uint64_t));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::uint64_t));
  return numbers;
}

// One save from the plan to the commit. Its members are called in order, by all ranks.
class Save {
 public:
  Save(Communicator& ranks, const SaveRequest& request, const Catalogue& catalogue)
      : ranks_(ranks), request_(request), catalogue_(catalogue),
        plan_(plan_checkpoint(catalogue.tensors, catalogue.holdings, catalogue.components, ranks.size(), request.ranks_per_file)) {}

  void agree();
  void stage(std::vector<Fingerprint> fingerprints);
  void write();
  void seal();
  Hash128 commit();
  void abandon() const noexcept {
    if (ranks_.rank() == 0 && !staging_.empty()) abandon_staging(staging_);
  }
  std::uint64_t bytes() const;

 private:
  void enter(Phase phase) const {
    if (request_.enter) request_.enter(phase);
  }
  bool leads(const PlannedFile& file) const { return file.leader == ranks_.rank(); }
  std::span<const std::byte> bytes_of_piece(std::size_t piece) const;
  void write(const PlannedFile& file, Numbers& written) const;
  void make_room() const;
  void check_unchanged() const;

  Communicator& ranks_;
  const SaveRequest& request_;
  const Catalogue& catalogue_;
  CheckpointPlan plan_;
  std::vector<Fingerprint> fingerprints_;        // by tensor, of what the holders had before writing
  std::string uuid_;
  Path staging_;
  std::vector<std::uint64_t> table_offsets_;     // by file, on its leader
  StagedState state_;
};

void Save::agree() {
  agree_equal(ranks_, "the plan of the checkpoint", to_hex(hash_of(plan_)));
  // Another rank's idea of step or folder would scatter the parts.
  agree_equal(ranks_, "the step and folder of the checkpoint", fmt::format("{} {}", request_.step, request_.run.string()));
  uuid_ = rank0_tells(ranks_, "naming the checkpoint", make_uuid);
  staging_ = staging_folder(request_.run, request_.step, uuid_);
}

// What killed jobs left behind must not be what a save fails for.
void Save::make_room() const {
  try {
    sweep(request_.run);
  } catch (const Error&) {   // what cannot be removed is told after the commit, by which it is tried again
  }
}

// Rank 0 makes the folders, then each part's leader lays it out and tells the others where their pieces go.
void Save::stage(std::vector<Fingerprint> fingerprints) {
  fingerprints_ = std::move(fingerprints);
  state_.pieces.resize(plan_.pieces.size());
  state_.files.resize(plan_.files.size());
  table_offsets_.resize(plan_.files.size());
  Numbers offsets;
  together(ranks_, fmt::format("staging the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_stage);
    if (ranks_.rank() != 0) return;
    make_room();
    make_staging(staging_, plan_);
  });
  together(ranks_, fmt::format("laying out the checkpoint of step {}", request_.step), [&] {
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      if (!leads(plan_.files[i])) continue;
      const StampedPart stamped = stamp_part(staging_ / plan_.files[i].path, part_pieces(plan_, plan_.files[i]));
      table_offsets_[i] = stamped.table_offset;
      for (std::size_t k = 0; k < stamped.offsets.size(); ++k) offsets.insert(offsets.end(), {plan_.files[i].pieces[k], stamped.offsets[k]});
    }
  });
  for (const std::string& text : ranks_.all_gather(encode(offsets))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) state_.pieces[numbers[i]].offset = numbers[i + 1];
  }
}

// A piece is rows of this rank's box, so its bytes are consecutive there.
std::span<const std::byte> Save::bytes_of_piece(std::size_t piece) const {
  const WriteItem& item = plan_.pieces[piece];
  const LocalBox& local = catalogue_.local[item.tensor];
  const auto size = static_cast<std::size_t>(size_of(catalogue_.tensors[item.tensor].layout.dtype));
  std::size_t begin = 0;
  for_each_run(item.box, local.box, item.box, [&](const BoxRun& run) {
    if (run.in_b == 0) begin = static_cast<std::size_t>(run.in_a);
  });
  return local.bytes.subspan(begin * size, static_cast<std::size_t>(elements(item.box)) * size);
}

// The pieces that this rank writes of a part.
void Save::write(const PlannedFile& file, Numbers& written) const {
  std::optional<PartWriter> part;
  std::uint64_t needed = 0;
  for (const std::size_t piece : file.pieces) {
    if (plan_.pieces[piece].writer == ranks_.rank()) needed += bytes_of_piece(piece).size();
  }
  try {
    for (const std::size_t piece : file.pieces) {
      if (plan_.pieces[piece].writer != ranks_.rank()) continue;
      if (!part) part.emplace(staging_ / file.path);
      const PieceRecord record = part->write(part_piece(plan_, piece), state_.pieces[piece].offset, bytes_of_piece(piece));
      written.insert(written.end(), {piece, record.fingerprint.first, record.fingerprint.second, record.blocks.size()});
      for (const Hash128& block : record.blocks) written.insert(written.end(), {block.high, block.low});
    }
    if (part) part->finish();
  } catch (const Error& error) {
    throw with_room(error, staging_, needed);
  }
}

void Save::write() {
  Numbers written;
  together(ranks_, fmt::format("writing the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_write);
    for (const PlannedFile& file : plan_.files) write(file, written);
  });
  for (const std::string& text : ranks_.all_gather(encode(written))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i < numbers.size();) {
      PieceRecord& record = state_.pieces[numbers[i]];
      record.fingerprint = {numbers[i + 1], numbers[i + 2]};
      record.blocks.resize(numbers[i + 3]);
      i += 4;
      for (Hash128& block : record.blocks) {
        block = {numbers[i], numbers[i + 1]};
        i += 2;
      }
    }
  }
}

// What was compared between the ranks is what was written.
void Save::check_unchanged() const {
  std::vector<Fingerprint> written(plan_.tensors.size());
  for (std::size_t i = 0; i < plan_.pieces.size(); ++i) written[plan_.pieces[i].tensor] += state_.pieces[i].fingerprint;
  for (std::size_t i = 0; i < plan_.tensors.size(); ++i) {
    const StoredComponent& component =
        *std::find_if(catalogue_.components.begin(), catalogue_.components.end(),
                      [&](const StoredComponent& candidate) { return candidate.key == plan_.tensors[i].component; });
    if (component.validation == Validation::none || component.validation == Validation::quick) continue;
    if (written[i] != fingerprints_[i]) fail(ExitCode::bug, "{} changed while it was being saved", full_name(plan_.tensors[i]));
  }
}

void Save::seal() {
  Numbers sealed;
  together(ranks_, fmt::format("sealing the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_seal);
    for (std::size_t i = 0; i < plan_.files.size(); ++i) {
      const PlannedFile& file = plan_.files[i];
      if (!leads(file)) continue;
      std::vector<PieceRecord> records;
      for (const std::size_t piece : file.pieces) records.push_back(state_.pieces[piece]);
      const SealedPart part = seal_part(staging_ / file.path, part_pieces(plan_, file), records, table_offsets_[i]);
      sealed.insert(sealed.end(), {i, part.bytes, part.hash.high, part.hash.low});
    }
  });
  for (const std::string& text : ranks_.all_gather(encode(sealed))) {
    const Numbers numbers = decode(text);
    for (std::size_t i = 0; i + 3 < numbers.size(); i += 4) state_.files[numbers[i]] = {numbers[i + 1], {numbers[i + 2], numbers[i + 3]}};
  }
}

Hash128 Save::commit() {
  together(ranks_, fmt::format("committing the checkpoint of step {}", request_.step), [&] {
    enter(Phase::save_commit);
    check_unchanged();
  });
  const std::string digest = rank0_tells(ranks_, fmt::format("committing the checkpoint of step {}", request_.step), [&] {
    Manifest facts;
    facts.step = request_.step;
    facts.uuid = uuid_;
    facts.mesh = request_.world.mesh;
    facts.components = catalogue_.components;
    facts.metrics = request_.metrics;
    facts.documents = request_.documents;
    const Manifest manifest = seal_checkpoint(staging_, plan_, state_, std::move(facts));
    replace_checkpoint(staging_, checkpoint_folder(request_.run, request_.step));
    return to_hex(manifest.state_digest);
  });
  return hash_from_hex(digest);
}

std::uint64_t Save::bytes() const {
  std::uint64_t bytes = 0;
  for (const SealedPart& file : state_.files) bytes += file.bytes;
  return bytes;
}

// What follows a commit cannot undo it: a problem here is reported, not thrown.
void tidy_up(Communicator& ranks, const SaveRequest& request, SaveReport& report) {
  const std::string told = rank0_tells(ranks, "removing old checkpoints", [&] {
    Json result = {{"retired", Json::array()}, {"problem", ""}};
    try {
      advise_latest(request.run, request.step);
      result["retired"] = retire(request.run, request.retention);
    } catch (const Error& error) {
      result["problem"] = error.what();
    }
    return to_text(result);
  });
  const Json result = parse_json(told, "the report of rank 0");
  report.retired = result.at("retired").get<std::vector<std::int64_t>>();
  report.retention_problem = result.at("problem").get<std::string>();
}

}  // namespace

SaveReport save(Communicator& ranks, const std::vector<Component>& components, const SaveRequest& request) {
  const double start = monotonic_seconds();
  const Catalogue catalogue = collect_state(ranks, request.world, components, Contents::tensors_and_values, [&] {
    if (request.enter) request.enter(Phase::save_plan);
    if (request.step < 0 || request.ranks_per_file < 1)
      fail(ExitCode::bug, "a save of step {} with {} ranks to a file", request.step, request.ranks_per_file);
  });
  Save save(ranks, request, catalogue);
  SaveReport report{checkpoint_folder(request.run, request.step), request.step, 0, 0, {}, {}, {}};
  try {
    save.agree();
    save.stage(compare_holders(ranks, catalogue));
    save.write();
    save.seal();
    report.state_digest = save.commit();
  } catch (const AgreedError& error) {
    save.abandon();
    if (error.code() != ExitCode::input) throw;
    // What a save reads are files that it has just written: where they are gone or changed, storage failed.
    throw AgreedError(Error(ExitCode::storage, error.what(), error.hint()), error.owner());
  } catch (...) {
    save.abandon();
    throw;
  }
  report.bytes = save.bytes();
  tidy_up(ranks, request, report);
  report.seconds = monotonic_seconds() - start;
  return report;
}

}  // namespace lockstep
