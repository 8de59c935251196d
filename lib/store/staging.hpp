// A checkpoint in the making: a hidden folder that becomes the checkpoint in one rename, after its manifest was written
// last. Serial; the ranks of a job share it (checkpoint/save.hpp), checkpoint-reshard does it alone.
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

/// What goes into Manifest::software.
std::string software_name();

/// Whether the file system of a folder has 1.05 times so many bytes free. Throws Error(storage).
bool has_room(const Path& folder, std::uint64_t bytes);
/// Creates the staging folder and `folders` in it, those of all parts, of which `bytes` are to lie here. Throws
/// Error(storage), also without room, naming what is needed and what is free.
void make_staging(const Path& staging, const std::vector<std::string>& folders, std::uint64_t bytes);

/// This is what became of the tensors and files of a plan, by number.
struct StagedState {
  std::vector<Fingerprint> tensors;  // the sums of their pieces'
  std::vector<SealedPart> files;
};

/// Returns once a folder that another process made is seen here: a network file system may show it late. Throws
/// Error(storage) where it is not within `patience_s`. Local.
void await_folder(const Path& folder, double patience_s);

/// Checks sizes, for up to `patience_s` where others wrote the parts, writes INDEX.h5, then MANIFEST.json. `files` are
/// those of all parts; their pieces are not asked for. `facts` brings step, uuid, mesh, components, metrics and
/// documents; the rest is filled in. Throws Error(storage). Returns the manifest. Sizes of files on storage of a node's
/// own are checked there, by copy_head.
Manifest seal_checkpoint(const Path& staging, const std::vector<StoredTensor>& tensors,
                         const std::vector<PlannedFile>& files, const StagedState& state, Manifest facts,
                         double patience_s = 0);

/// Writes INDEX.h5 and MANIFEST.json of a checkpoint whose parts were copied into the staging folder from storage of
/// nodes' own: here all see them. Checks sizes as seal_checkpoint does. Throws Error(storage).
void seal_copy(const Path& staging, Manifest manifest, double patience_s);

/// Renames the staging folder into place. An older checkpoint of that name gives way, in one step where the file system
/// can exchange names, and is trash then. Throws Error(storage); an older one is then in its place again. Where a kill
/// comes between two names, collect_leftovers takes the older one back.
void replace_checkpoint(const Path& staging, const Path& checkpoint);

/// Writes manifest and index, as seal_checkpoint of another storage wrote them, into the staging folder of `node`'s own
/// storage (which may have them), where the sizes of its files are checked first. Throws Error(storage).
void copy_head(const Path& staging, const CheckpointHead& head, const std::string& node);

/// What replace_checkpoint does, in two steps: between them the new checkpoint is in place and the older one, if there
/// is one, waits under the name that is returned, from where take_back brings it back. Throws as replace_checkpoint.
std::optional<Path> publish_checkpoint(const Path& staging, const Path& checkpoint);
void discard_displaced(const std::optional<Path>& displaced) noexcept;
/// The staging folder is there again, and the older checkpoint in its place. Throws Error(storage).
void take_back(const Path& staging, const Path& checkpoint, const std::optional<Path>& displaced);

/// Removes what a failed save has staged, so that failures do not fill the disk; never throws, for the error that led
/// here is the one to tell. What cannot be removed is left as .trash-….
void abandon_staging(const Path& staging) noexcept;

/// The error of a write, with the room that was needed and the room there is, where the one exceeds the other: "…
/// (needs 412 MiB, 96 MiB free)". Local.
NoRoom with_room(const NoRoom& error, const Path& folder, std::uint64_t needed);

}  // namespace lockstep
