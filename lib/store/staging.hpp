// Makes a checkpoint in a hidden folder, which one rename turns into the checkpoint after its manifest was written
// last. Serial: the ranks of a job share the work (checkpoint/save.hpp), and checkpoint-reshard does it alone.
#pragma once

#include "base/no_room.hpp"
#include "base/random.hpp"
#include "store/checkpoint_plan.hpp"
#include "store/checkpoint_reader.hpp"
#include "store/part_file.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Returns the text for Manifest::software.
std::string software_name();

/// Returns whether the file system of a folder has 1.05 × `bytes` + 1 MiB free. Throws Error(storage).
bool has_room(const Path& folder, std::uint64_t bytes);
/// Creates the staging folder and in it `folders`, those of all parts; `bytes` will be written here. Throws
/// Error(storage), also if there is no room, naming the needed and the free bytes.
void make_staging(const Path& staging, const std::vector<std::string>& folders, std::uint64_t bytes);

/// The results for the tensors and files of a plan, by number.
struct StagedState {
  std::vector<Fingerprint> tensors;  // sums over their pieces
  std::vector<SealedPart> files;
};

/// Waits until a folder that another process made is visible here, because a network file system may show it late.
/// Throws Error(storage) if it is not within `patience_s`. Local.
void await_folder(const Path& folder, double patience_s);

/// Checks the sizes of the parts, waiting up to `patience_s` for parts that others wrote. Then writes INDEX.h5 and
/// MANIFEST.json and returns the manifest. `files` are those of all parts, and their pieces are not used. `facts`
/// brings step, uuid, mesh, nodes, components, metrics and documents; the rest is filled in. Sizes of files on a node's
/// own storage are checked there, by copy_head. Throws Error(storage).
Manifest seal_checkpoint(const Path& staging, const std::vector<StoredTensor>& tensors,
                         const std::vector<PlannedFile>& files, const StagedState& state, Manifest facts,
                         double patience_s = 0);

/// Writes INDEX.h5 and MANIFEST.json for a checkpoint whose parts were copied into the staging folder from node-local
/// storage. Here all ranks see them. Checks sizes as seal_checkpoint does. Throws Error(storage).
void seal_copy(const Path& staging, Manifest manifest, double patience_s);

/// Renames the staging folder into place. An older checkpoint of that name is displaced, in one step if the file system
/// can exchange names, and moved to trash. On failure it throws Error(storage), and the older checkpoint is in its
/// place again. If a kill comes between two names, collect_leftovers restores the older one.
void replace_checkpoint(const Path& staging, const Path& checkpoint);

/// Writes manifest and index from seal_checkpoint of another storage into the staging folder on `node`'s own storage,
/// unless they are there already. First checks the sizes of the node's files. Throws Error(storage).
void copy_head(const Path& staging, const CheckpointHead& head, const std::string& node);

/// The first step of replace_checkpoint: puts the new checkpoint in place. An older one, if there is one, waits under
/// the returned name; take_back restores it, and discard_displaced moves it to trash. Throws as replace_checkpoint
/// does.
std::optional<Path> publish_checkpoint(const Path& staging, const Path& checkpoint);
void discard_displaced(const std::optional<Path>& displaced) noexcept;
/// Restores the staging folder, and the older checkpoint in its place. Throws Error(storage).
void take_back(const Path& staging, const Path& checkpoint, const std::optional<Path>& displaced);

/// Removes the files of a failed save, so that failures do not fill the disk. Never throws, because the first error is
/// the one to report. Files that cannot be removed stay as .trash-….
void abandon_staging(const Path& staging) noexcept;

/// Returns the error of a write, with the needed and the free room if the needed one is larger: "… (needs 412 MiB, 96
/// MiB free)". Local.
NoRoom with_room(const NoRoom& error, const Path& folder, std::uint64_t needed);

}  // namespace lockstep
