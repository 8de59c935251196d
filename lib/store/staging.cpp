#include "store/staging.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "report/build_info.hpp"
#include "store/checkpoint_index.hpp"
#include "store/run_directory.hpp"
#include "store/trash.hpp"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cstdio>
#include <set>

namespace lockstep {

namespace {

std::uint64_t room(const struct statvfs& status) {
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

std::uint64_t free_bytes(const Path& folder) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) fail_errno("ask for the free space of", folder);
  return room(status);
}

std::uint64_t room_needed(const CheckpointPlan& plan) {
  return total_bytes(plan) + total_bytes(plan) / 20 + (std::uint64_t{1} << 20);
}

// Every element is in one piece, so that the sums of the pieces are those of the tensors.
void complete_tensors(const CheckpointPlan& plan, const StagedState& state, std::vector<StoredTensor>& tensors) {
  std::vector<std::vector<Box>> boxes(tensors.size());
  for (const WriteItem& piece : plan.pieces) boxes[piece.tensor].push_back(piece.box);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].fingerprint = state.tensors[i];
    if (const auto defect = coverage_defect(tensors[i].layout.global, boxes[i]))
      fail(ExitCode::bug, "the pieces of {} do not make it up: {}", full_name(tensors[i]), *defect);
  }
}

// Where the pieces of each tensor are, and whether the layout tells which part has which of them.
void locate_tensors(const CheckpointPlan& plan, std::vector<StoredTensor>& tensors) {
  std::vector<std::set<std::size_t>> files(tensors.size());
  for (StoredTensor& tensor : tensors)
    tensor.by_layout = tensor.cell.empty() && tensor.holding == TensorHolding::layout;
  for (std::size_t i = 0; i < plan.pieces.size(); ++i) {
    const WriteItem& piece = plan.pieces[i];
    StoredTensor& tensor = tensors[piece.tensor];
    files[piece.tensor].insert(plan.file_of_piece[i]);
    tensor.by_layout = tensor.by_layout && piece.writer < world_size(tensor.layout.mesh) &&
                       contains(box_of(tensor.layout, piece.writer), piece.box);
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].files.clear();
    for (const std::size_t file : files[i]) {
      std::vector<FileRange>& ranges = tensors[i].files;
      if (ranges.empty() || ranges.back().first + ranges.back().count != file) ranges.push_back({file, 0});
      ++ranges.back().count;
    }
  }
}

void check_size(const Path& path, std::uint64_t bytes) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) fail_errno("look at", path);
  if (static_cast<std::uint64_t>(status.st_size) != bytes)
    fail(ExitCode::storage, "{} has {} bytes, its writer reported {}", path.string(), status.st_size, bytes);
}

}  // namespace

std::string software_name() { return fmt::format("lockstep {}", version()); }

bool has_room(const Path& folder, const CheckpointPlan& plan) { return free_bytes(folder) >= room_needed(plan); }

void make_staging(const Path& staging, const CheckpointPlan& plan) {
  make_folder(staging.parent_path());
  const std::uint64_t needed = room_needed(plan);
  const std::uint64_t available = free_bytes(staging.parent_path());
  if (available < needed) {
    throw Error(ExitCode::storage,
                fmt::format("cannot stage {}: needs {}, {} free", staging.string(), human_bytes(needed),
                            human_bytes(available)),
                "free some space, or keep fewer checkpoints");
  }
  make_folder(staging);
  std::set<Path> folders;
  for (const PlannedFile& file : plan.files) folders.insert((staging / file.path).parent_path());
  for (const Path& folder : folders) make_folder(folder);
}

Manifest seal_checkpoint(const Path& staging, const CheckpointPlan& plan, const StagedState& state, Manifest facts) {
  facts.created = utc_now();
  facts.software = software_name();
  facts.format = Manifest().format;
  facts.tensors = plan.tensors;
  complete_tensors(plan, state, facts.tensors);
  locate_tensors(plan, facts.tensors);
  facts.state_digest = state_digest(facts.tensors);
  for (std::size_t i = 0; i < plan.files.size(); ++i) {
    check_size(staging / plan.files[i].path, state.files[i].bytes);
    facts.files.push_back({.path = plan.files[i].path,
                           .bytes = state.files[i].bytes,
                           .hash = state.files[i].hash,
                           .table_hash = state.files[i].table_hash,
                           .table = state.files[i].columns,
                           .writers = plan.files[i].writers});
  }
  const Path index = staging / index_file;
  write_index(index, facts);
  const std::string content = read_file(index);
  facts.files.push_back({.path = std::string(index_file), .bytes = content.size(), .hash = hash128(content)});

  std::set<Path> folders;  // the names in every folder are durable before the manifest is
  for (const PlannedFile& file : plan.files) {
    for (Path folder = (staging / file.path).parent_path(); folder != staging; folder = folder.parent_path())
      folders.insert(folder);
  }
  for (const Path& folder : folders) sync_folder(folder);
  publish_file(staging / manifest_file, manifest_text(facts));
  return facts;
}

void replace_checkpoint(const Path& staging, const Path& checkpoint) {
  if (kind_of_name(checkpoint) == FileKind::nothing) return durable_rename(staging, checkpoint);
  Path displaced = staging;  // which has the older one's place after an exchange
  if (!durable_exchange(staging, checkpoint)) {
    displaced = displaced_name(checkpoint);
    durable_rename(checkpoint, displaced);
    try {
      durable_rename(staging, checkpoint);
    } catch (...) {
      ::rename(displaced.c_str(), checkpoint.c_str());
      throw;
    }
  }
  ::rename(displaced.c_str(), trash_name(displaced).c_str());  // what stays so is a leftover
}

void abandon_staging(const Path& staging) noexcept {
  const Path trash = trash_name(staging);
  try_remove_tree(::rename(staging.c_str(), trash.c_str()) == 0 ? trash : staging);
}

Error with_room(const Error& error, const Path& folder, std::uint64_t needed) {
  struct statvfs status{};
  if (error.code() != ExitCode::storage || ::statvfs(folder.c_str(), &status) != 0) return error;
  const std::uint64_t available = room(status);
  if (available >= needed) return error;
  return {error.code(),
          fmt::format("{} (needs {}, {} free)", error.what(), human_bytes(needed), human_bytes(available)),
          error.hint()};
}

}  // namespace lockstep
