#include "store/checkpoint_view.hpp"

#include "base/error.hpp"
#include "base/own_files.hpp"
#include "layout/box_runs.hpp"
#include "store/checkpoint_verify.hpp"
#include "store/hdf5.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <set>

namespace lockstep {

namespace {

constexpr int version = 2;

/// The pieces of each tensor that are in parts as they are listed, by their place.
std::vector<std::vector<const IndexedPiece*>> pieces_there(const CheckpointReader& checkpoint, WrittenView& view) {
  const Manifest& manifest = checkpoint.manifest();
  std::vector<std::vector<const IndexedPiece*>> pieces(manifest.tensors.size());
  for (std::size_t file = 0; file < manifest.files.size(); ++file) {
    if (manifest.files[file].path == index_file) continue;
    if (const auto defect =
            length_defect(manifest.files[file], length_of(checkpoint.path() / manifest.files[file].path))) {
      view.absent.push_back(*defect);
      continue;
    }
    try {
      for (const IndexedPiece& piece : checkpoint.pieces_in(file)) pieces[piece.tensor].push_back(&piece);
    } catch (const Error& error) {
      if (error.code() != ExitCode::input) throw;
      view.absent.emplace_back(error.what());  // nobody knows what lies where in it
    }
  }
  for (auto& of_tensor : pieces)
    std::ranges::stable_sort(of_tensor, {}, [](const IndexedPiece* piece) -> const Shape& { return piece->box.begin; });
  return pieces;
}

/// The boxes of the pieces in the shape that people know; nothing if one of them is no box there.
std::optional<std::vector<Box>> boxes_as_known(const std::vector<const IndexedPiece*>& pieces, const Layout& layout) {
  std::vector<Box> boxes;
  for (const IndexedPiece* piece : pieces) {
    auto box = box_in_view(piece->box, layout.global, known_shape(layout));
    if (!box) return std::nullopt;
    boxes.push_back(std::move(*box));
  }
  return boxes;
}

Hdf5Mapping mapping_of(const Manifest& manifest, const IndexedPiece& piece, Box target) {
  const StoredTensor& tensor = manifest.tensors[piece.tensor];
  const std::int64_t at = piece.record.packed_at;
  return {std::move(target), manifest.files[piece.file].path,
          dataset_of({full_name(tensor), tensor.layout.global, tensor.layout.dtype, piece.box}, piece.record),
          at >= 0 ? Box{{at}, {elements(piece.box)}} : whole(piece.box.extent)};
}

void add_tensor(Hdf5File& file, const Manifest& manifest, const StoredTensor& tensor,
                const std::vector<const IndexedPiece*>& pieces, WrittenView& view) {
  const std::string name = full_name(tensor);
  const std::string path = "/" + name;
  const auto known = boxes_as_known(pieces, tensor.layout);
  std::vector<Hdf5Mapping> mappings;
  std::int64_t gap = elements(tensor.layout.global);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    gap -= elements(pieces[i]->box);
    if (!empty(pieces[i]->box))
      mappings.push_back(mapping_of(manifest, *pieces[i], known ? (*known)[i] : pieces[i]->box));
  }
  file.create_virtual(path, tensor.layout.dtype, known ? known_shape(tensor.layout) : tensor.layout.global, mappings);
  if (!known) file.set_attribute(path, "known", known_shape(tensor.layout));
  ++view.tensors;
  if (gap <= 0) return;  // less than none: stored twice, which only a verification judges
  file.set_attribute(path, "missing", gap);
  view.gaps.emplace_back(name, gap);
}

/// A name below that of a tensor has no place: to HDF5 a dataset is no group.
bool has_place(const std::string& name, const std::set<std::string>& names, WrittenView& view) {
  for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', end + 1)) {
    if (!names.contains(name.substr(0, end))) continue;
    view.left_out.push_back(fmt::format("{}: {} is a tensor, so nothing can lie below it", name, name.substr(0, end)));
    return false;
  }
  return true;
}

std::vector<std::string> full_aliases(const StoredTensor& tensor) {
  const std::string name = full_name(tensor);
  std::vector<std::string> names;
  for (const std::string& alias : tensor.aliases)
    names.push_back(name.substr(0, name.size() - tensor.name.size()) + alias);
  return names;
}

WrittenView fill(Hdf5File& file, const CheckpointReader& checkpoint) {
  const Manifest& manifest = checkpoint.manifest();
  WrittenView view;
  const auto pieces = pieces_there(checkpoint, view);
  std::set<std::string> names;
  std::set<std::size_t> files;
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    if (is_values(manifest.tensors[i])) continue;
    names.insert(full_name(manifest.tensors[i]));
    for (std::string& alias : full_aliases(manifest.tensors[i])) names.insert(std::move(alias));
    for (const IndexedPiece* piece : pieces[i]) files.insert(piece->file);
  }
  view.files = files.size();
  file.set_attribute("/", "format", "lockstep.view");
  file.set_attribute("/", "version", version);
  file.set_attribute("/", "step", manifest.step);
  file.set_attribute("/", "uuid", manifest.uuid);
  file.set_attribute("/", "state_digest", to_hex(manifest.state_digest));
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest.tensors[i];
    if (is_values(tensor) || !has_place(full_name(tensor), names, view)) continue;
    add_tensor(file, manifest, tensor, pieces[i], view);
    for (const std::string& alias : full_aliases(tensor)) {
      if (!has_place(alias, names, view)) continue;
      file.add_link("/" + alias, "/" + full_name(tensor));
      ++view.aliases;
    }
  }
  return view;
}

}  // namespace

bool is_view(std::string_view name) {
  return name == view_file || (name.starts_with('.') && name.substr(1).starts_with(fmt::format("{}.", view_file)));
}

WrittenView write_view(const CheckpointReader& checkpoint) {
  const Path staged = temporary_beside(checkpoint.path() / view_file);
  try {
    Hdf5File file = Hdf5File::create(staged);
    const WrittenView view = fill(file, checkpoint);
    file.close();
    sync_file(open_file(staged, O_RDONLY), staged);
    publish_rename(staged, checkpoint.path() / view_file);
    return view;
  } catch (...) {
    ::unlink(staged.c_str());
    throw;
  }
}

}  // namespace lockstep
