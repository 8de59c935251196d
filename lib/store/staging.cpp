#include "store/staging.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "report/build_info.hpp"
#include "store/checkpoint_index.hpp"
#include "store/run_directory.hpp"
#include "store/trash.hpp"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <set>
#include <thread>

namespace lockstep {

namespace {

std::uint64_t room(const struct statvfs& status) {
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

std::uint64_t free_bytes(const Path& folder) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) fail_errno("read the free space of", folder);
  return room(status);
}

std::uint64_t room_needed(std::uint64_t bytes) { return bytes + bytes / 20 + (std::uint64_t{1} << 20); }

// Which files have pieces of each tensor, and whether its layout tells which part has which of them.
void locate_tensors(const std::vector<PlannedFile>& files, std::vector<StoredTensor>& tensors) {
  for (StoredTensor& tensor : tensors) {
    tensor.files.clear();
    tensor.by_layout = tensor.cell.empty() && tensor.holding == TensorHolding::layout;
  }
  for (std::size_t file = 0; file < files.size(); ++file) {
    for (const TensorRun& run : files[file].tensors) {
      for (std::size_t i = run.first; i < run.first + run.count; ++i) {
        std::vector<FileRange>& ranges = tensors[i].files;
        if (ranges.empty() || ranges.back().first + ranges.back().count != file) ranges.push_back({file, 0});
        ++ranges.back().count;
        tensors[i].by_layout = tensors[i].by_layout && run.by_layout;
      }
    }
  }
}

// The names in every folder are durable before the manifest is.
void sync_folders_of(const Path& staging, const Manifest& manifest) {
  std::set<Path> folders;
  for (const StoredFile& file : manifest.files)
    for (Path folder = (staging / file.path).parent_path(); folder != staging; folder = folder.parent_path())
      folders.insert(folder);
  for (const Path& folder : folders) sync_folder(folder);
}

bool is_seen_within(double patience_s, const std::function<bool()>& is_seen) {
  const double began_s = monotonic_seconds();
  for (double pause_s = 0.01; !is_seen(); pause_s = std::min(1.0, 2 * pause_s)) {
    const double left_s = began_s + patience_s - monotonic_seconds();
    if (left_s <= 0) return false;
    std::this_thread::sleep_for(std::chrono::duration<double>(std::min(pause_s, left_s)));
  }
  return true;
}

void check_size(const Path& path, std::uint64_t bytes, double patience_s) {
  std::optional<std::uint64_t> length;
  const auto is_whole = [&] { return (length = length_of(path)) == bytes; };
  if (is_seen_within(patience_s, is_whole)) return;
  fail(ExitCode::storage, "{} {}, but its writer reported {} bytes (retried for {:g} s)", path.string(),
       length ? fmt::format("has {} bytes", *length) : "is missing", bytes, patience_s);
}

// Of all files but the index, which is written here.
void write_head(const Path& staging, Manifest& manifest, double patience_s) {
  for (const StoredFile& file : manifest.files)
    if (file.node.empty()) check_size(staging / file.path, file.bytes, patience_s);
  const Path index = staging / index_file;
  write_index(index, manifest);
  const std::string content = read_file(index);
  manifest.files.push_back({.path = std::string(index_file), .bytes = content.size(), .hash = hash128(content)});

  sync_folders_of(staging, manifest);
  publish_file(staging / manifest_file, manifest_text(manifest));
}

}  // namespace

std::string software_name() { return fmt::format("lockstep {}", version()); }

bool has_room(const Path& folder, std::uint64_t bytes) { return free_bytes(folder) >= room_needed(bytes); }

void make_staging(const Path& staging, const std::vector<std::string>& folders, std::uint64_t bytes) {
  make_folder(staging.parent_path());
  const std::uint64_t needed = room_needed(bytes);
  const std::uint64_t available = free_bytes(staging.parent_path());
  if (available < needed) {
    throw Error(ExitCode::storage,
                fmt::format("cannot stage {}: needs {}, {} free", staging.string(), human_bytes(needed),
                            human_bytes(available)),
                "free some space, or keep fewer checkpoints");
  }
  make_folder(staging);
  for (const std::string& folder : folders) make_folder(staging / folder);
}

void await_folder(const Path& folder, double patience_s) {
  if (is_seen_within(patience_s, [&] { return is_folder(folder); })) return;
  fail(ExitCode::storage, "the folder {} is missing (retried for {:g} s)", folder.string(), patience_s);
}

Manifest seal_checkpoint(const Path& staging, const std::vector<StoredTensor>& tensors,
                         const std::vector<PlannedFile>& files, const StagedState& state, Manifest facts,
                         double patience_s) {
  facts.created = utc_now();
  facts.software = software_name();
  facts.format = Manifest().format;
  facts.tensors = tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) facts.tensors[i].fingerprint = state.tensors[i];
  locate_tensors(files, facts.tensors);
  facts.state_digest = state_digest(facts.tensors);
  for (std::size_t i = 0; i < files.size(); ++i) {
    facts.files.push_back({.path = files[i].path,
                           .bytes = state.files[i].bytes,
                           .hash = state.files[i].hash,
                           .table_hash = state.files[i].table_hash,
                           .table = state.files[i].columns,
                           .writers = files[i].writers,
                           .node = files[i].node});
  }
  write_head(staging, facts, patience_s);
  return facts;
}

void seal_copy(const Path& staging, Manifest manifest, double patience_s) {
  std::erase_if(manifest.files, [](const StoredFile& file) { return file.path == index_file; });
  for (StoredFile& file : manifest.files) file.node.clear();
  write_head(staging, manifest, patience_s);
}

void copy_head(const Path& staging, const CheckpointHead& head, const std::string& node) {
  Manifest manifest = parse_manifest(head.manifest, (staging / manifest_file).string());
  add_index(manifest, head.index, staging / index_file);
  for (const StoredFile& file : manifest.files)
    if (file.node == node) check_size(staging / file.path, file.bytes, 0);  // storage of its own shows names at once
  if (is_there(staging / manifest_file)) return;
  sync_folders_of(staging, manifest);
  publish_file(staging / index_file, head.index);
  publish_file(staging / manifest_file, head.manifest);
}

std::optional<Path> publish_checkpoint(const Path& staging, const Path& checkpoint) {
  if (kind_of_name(checkpoint) == FileKind::nothing) {
    durable_rename(staging, checkpoint);
    return std::nullopt;
  }
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
  return displaced;
}

void discard_displaced(const std::optional<Path>& displaced) noexcept {
  if (displaced) ::rename(displaced->c_str(), trash_name(*displaced).c_str());  // what stays so is a leftover
}

void take_back(const Path& staging, const Path& checkpoint, const std::optional<Path>& displaced) {
  if (displaced == staging && durable_exchange(staging, checkpoint)) return;
  durable_rename(checkpoint, staging);
  if (displaced) durable_rename(*displaced, checkpoint);
}

void replace_checkpoint(const Path& staging, const Path& checkpoint) {
  discard_displaced(publish_checkpoint(staging, checkpoint));
}

void abandon_staging(const Path& staging) noexcept {
  const Path trash = trash_name(staging);
  try_remove_tree(::rename(staging.c_str(), trash.c_str()) == 0 ? trash : staging);
}

NoRoom with_room(const NoRoom& error, const Path& folder, std::uint64_t needed) {
  struct statvfs status{};
  if (::statvfs(folder.c_str(), &status) != 0) return error;
  const std::uint64_t available = room(status);
  if (available >= needed) return error;
  return NoRoom(fmt::format("{} (needs {}, {} free)", error.what(), human_bytes(needed), human_bytes(available)));
}

}  // namespace lockstep
