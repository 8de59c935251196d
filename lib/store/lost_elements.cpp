#include "store/lost_elements.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "layout/box_runs.hpp"
#include "store/part_table.hpp"
#include "store/stored_file.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <tuple>

namespace lockstep {

namespace {

void add_stretch(Box box, std::size_t dim, std::int64_t first, std::int64_t count, std::vector<Box>& boxes) {
  if (count <= 0) return;
  if (dim == box.extent.size()) return boxes.push_back(std::move(box));
  std::int64_t row = 1;
  for (std::size_t d = dim + 1; d < box.extent.size(); ++d) row *= box.extent[d];
  const auto rows = [&](std::int64_t begin, std::int64_t extent) {
    Box part = box;
    part.begin[dim] += begin;
    part.extent[dim] = extent;
    return part;
  };
  const std::int64_t first_row = first / row, before = first % row;
  if (before + count < row) return add_stretch(rows(first_row, 1), dim + 1, before, count, boxes);
  const std::int64_t head = before == 0 ? 0 : row - before, full = (count - head) / row, tail = (count - head) % row;
  add_stretch(rows(first_row, 1), dim + 1, before, head, boxes);
  const std::int64_t next = first_row + (head > 0 ? 1 : 0);
  if (full > 0) boxes.push_back(rows(next, full));
  add_stretch(rows(next + full, 1), dim + 1, 0, tail, boxes);
}

/// What of `box` lies outside of `hole`, which meets it: up to two boxes a dimension.
void add_around(Box box, const Box& hole, std::vector<Box>& boxes) {
  for (std::size_t d = 0; d < box.extent.size(); ++d) {
    const std::int64_t begin = box.begin[d], end = begin + box.extent[d];
    const std::int64_t hole_begin = std::max(begin, hole.begin[d]),
                       hole_end = std::min(end, hole.begin[d] + hole.extent[d]);
    for (const auto& [from, to] : {std::pair(begin, hole_begin), std::pair(hole_end, end)}) {
      if (from >= to) continue;
      boxes.push_back(box);
      boxes.back().begin[d] = from;
      boxes.back().extent[d] = to - from;
    }
    box.begin[d] = hole_begin;
    box.extent[d] = hole_end - hole_begin;
  }
}

/// Puts boxes together that make up one, along one dimension after the other, until none do.
void merge(std::vector<Box>& boxes) {
  const std::size_t dims = boxes.empty() ? 0 : boxes.front().extent.size();
  for (std::size_t before = 0; before != boxes.size();) {
    before = boxes.size();
    for (std::size_t d = dims; d-- > 0;) {
      const auto others = [d](const Box& box) {  // all that neighbours along d have in common
        std::pair<Shape, Shape> rest{box.begin, box.extent};
        rest.first[d] = rest.second[d] = 0;
        return rest;
      };
      std::ranges::sort(boxes, [&](const Box& a, const Box& b) {
        return std::tuple(others(a), a.begin[d]) < std::tuple(others(b), b.begin[d]);
      });
      std::vector<Box> merged;
      for (Box& box : boxes) {
        const bool touches = !merged.empty() && others(merged.back()) == others(box) &&
                             merged.back().begin[d] + merged.back().extent[d] == box.begin[d];
        if (touches)
          merged.back().extent[d] += box.extent[d];
        else
          merged.push_back(std::move(box));
      }
      boxes = std::move(merged);
    }
  }
  std::ranges::sort(boxes, {}, &Box::begin);
}

/// A tensor, where it may have lost elements, and what parts give back of it.
struct Survivor {
  std::string name;
  Layout layout;
  std::vector<Box> doubted;
  std::vector<Box> boxes;
};

/// How much of a part can be relied on.
struct PartState {
  Path path;
  std::uint64_t bytes = 0;  // that are there
  bool doubted = false;     // each block is to be compared with its hash
};

/// The elements of a piece that its part gives back.
void add_intact(const PartState& part, const PartPiece& piece, const PieceRecord& record, std::vector<Box>& boxes) {
  const std::uint64_t bytes = bytes_of(piece);
  const auto size = static_cast<std::uint64_t>(size_of(piece.dtype));
  const auto is_intact = [&](std::size_t number) {
    const std::uint64_t begin = number * block_bytes, length = std::min(block_bytes, bytes - begin);
    if (record.offset > part.bytes || begin + length > part.bytes - record.offset) return false;
    if (!part.doubted) return true;
    std::vector<std::byte> block(length);
    try {
      read_stored(open_stored(part.path), block, record.offset + begin, part.path);
    } catch (const Error&) {  // the verification says why
      return false;
    }
    return hash128(block) == record.blocks[number];
  };
  std::uint64_t begin = 0;  // of the intact stretch that is under way
  for (std::size_t number = 0; number < record.blocks.size(); ++number) {
    if (is_intact(number)) continue;
    const auto add = boxes_of_stretch(piece.box, static_cast<std::int64_t>(begin / size),
                                      static_cast<std::int64_t>((number * block_bytes - begin) / size));
    boxes.insert(boxes.end(), add.begin(), add.end());
    begin = std::min((number + 1) * block_bytes, bytes);
  }
  const auto add = boxes_of_stretch(piece.box, static_cast<std::int64_t>(begin / size),
                                    static_cast<std::int64_t>((bytes - begin) / size));
  boxes.insert(boxes.end(), add.begin(), add.end());
}

/// The boxes in the shape that people know, where all of them are boxes there.
LostTensor as_known(LostTensor lost, const Layout& layout) {
  std::vector<Box> known;
  for (const Box& box : lost.boxes) {
    auto seen = box_in_view(box, layout.global, known_shape(layout));
    if (!seen) return lost;
    known.push_back(std::move(*seen));
  }
  lost.shape = known_shape(layout);
  lost.boxes = std::move(known);
  return lost;
}

void add_losses(Losses& losses, std::vector<Survivor> tensors) {
  for (Survivor& tensor : tensors) {
    const auto size = static_cast<std::uint64_t>(size_of(tensor.layout.dtype));
    const std::int64_t all = elements(tensor.layout.global);
    losses.of_elements += all;
    losses.of_bytes += static_cast<std::uint64_t>(all) * size;
    LostTensor lost{tensor.name, tensor.layout.global, tensor.layout.dtype,
                    boxes_without(std::move(tensor.doubted), std::move(tensor.boxes))};
    if (lost.boxes.empty()) continue;
    for (const Box& box : lost.boxes) lost.elements += elements(box);
    losses.elements += lost.elements;
    losses.bytes += static_cast<std::uint64_t>(lost.elements) * size;
    losses.tensors.push_back(as_known(std::move(lost), tensor.layout));
  }
}

/// Where a tensor may have lost elements: where its pieces lie in the boxes of their writers, in those of the damaged
/// parts' writers; else anywhere, if a damaged part has pieces of it.
std::vector<Box> doubted_boxes(const Manifest& manifest, const StoredTensor& tensor,
                               const std::set<std::size_t>& damaged) {
  std::vector<Box> boxes;
  for (const FileRange& range : tensor.files) {
    const auto end = damaged.lower_bound(range.first + range.count);
    for (auto file = damaged.lower_bound(range.first); file != end; ++file) {
      for (const Rank writer : manifest.files[*file].writers) {
        if (!tensor.by_layout || writer >= world_size(tensor.layout.mesh)) return {whole(tensor.layout.global)};
        boxes.push_back(box_of(tensor.layout, writer));
      }
      if (manifest.files[*file].writers.empty()) return {whole(tensor.layout.global)};
    }
  }
  const auto before = [](const Box& a, const Box& b) {
    return std::tie(a.begin, a.extent) < std::tie(b.begin, b.extent);
  };
  std::ranges::sort(boxes, before);
  boxes.erase(std::ranges::unique(boxes).begin(), boxes.end());  // of a layout they are the same or apart
  return boxes;
}

/// The files that may have pieces in these boxes of a tensor.
std::set<std::size_t> files_with(const Manifest& manifest, const StoredTensor& tensor, const std::vector<Box>& boxes) {
  std::set<std::size_t> files;
  for (const FileRange& range : tensor.files) {
    for (std::size_t file = range.first; file < range.first + range.count; ++file) {
      const auto meets = [&](Rank writer) {
        if (writer >= world_size(tensor.layout.mesh)) return true;
        const Box own = box_of(tensor.layout, writer);
        return std::ranges::any_of(boxes, [&](const Box& box) { return !empty(intersect(box, own)); });
      };
      if (!tensor.by_layout || std::ranges::any_of(manifest.files[file].writers, meets)) files.insert(file);
    }
  }
  return files;
}

std::vector<Path> parts_below(const Path& folder) {
  std::vector<Path> parts;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with("part-") && name.ends_with(".h5")) parts.push_back(at->path());
  }
  std::ranges::sort(parts);
  return parts;
}

/// Nothing where it is not there or the storage does not say.
std::optional<std::uint64_t> bytes_there(const Path& path) {
  try {
    return length_of(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Box> boxes_of_stretch(const Box& box, std::int64_t first, std::int64_t count) {
  std::vector<Box> boxes;
  add_stretch(box, 0, first, count, boxes);
  return boxes;
}

// Boxes come by their first row: what is left before that row stays as it is.
std::vector<Box> boxes_without(std::vector<Box> from, std::vector<Box> boxes) {
  for (std::vector<Box>* list : {&from, &boxes}) std::erase_if(*list, [](const Box& box) { return empty(box); });
  std::ranges::sort(boxes, {}, &Box::begin);
  std::vector<Box> done, left = std::move(from), next;
  for (const Box& hole : boxes) {
    next.clear();
    for (Box& box : left) {
      const bool passed = !box.begin.empty() && box.begin[0] + box.extent[0] <= hole.begin[0];
      if (passed)
        done.push_back(std::move(box));
      else if (empty(intersect(box, hole)))
        next.push_back(std::move(box));
      else
        add_around(std::move(box), hole, next);
    }
    std::swap(left, next);
  }
  done.insert(done.end(), left.begin(), left.end());
  merge(done);
  return done;
}

std::string slice_text(const Box& box, const Shape& shape) {
  if (box == whole(shape)) return "whole";
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < shape.size(); ++d)
    dims.push_back(box.extent[d] == shape[d] ? ":" : fmt::format("{}:{}", box.begin[d], box.begin[d] + box.extent[d]));
  return "[" + join(dims, ", ") + "]";
}

Losses find_losses(const CheckpointReader& checkpoint, VerifyLevel level, const std::set<std::string>& damaged) {
  const Manifest& manifest = checkpoint.manifest();
  const bool anywhere = damaged.contains("");
  std::set<std::size_t> damaged_files, files;
  for (std::size_t file = 0; file < manifest.files.size(); ++file)
    if (anywhere || damaged.contains(manifest.files[file].path)) damaged_files.insert(file);
  std::vector<Survivor> tensors;
  std::vector<const StoredTensor*> asked;  // whose files were looked for; most others are like one of them
  for (const StoredTensor& tensor : manifest.tensors) {
    std::vector<Box> doubted =
        anywhere ? std::vector{whole(tensor.layout.global)} : doubted_boxes(manifest, tensor, damaged_files);
    const auto is_like = [&](const StoredTensor* other) {
      return other->layout == tensor.layout && other->files == tensor.files && other->by_layout == tensor.by_layout;
    };
    if (!doubted.empty() && std::ranges::none_of(asked, is_like)) {
      files.merge(files_with(manifest, tensor, doubted));
      asked.push_back(&tensor);
    }
    tensors.push_back({full_name(tensor), tensor.layout, std::move(doubted), {}});
  }
  for (const std::size_t file : files) {
    const StoredFile& stored = manifest.files[file];
    const Path path = checkpoint.path() / stored.path;
    const auto length = bytes_there(path);
    if (!length) continue;
    const PartState part{path, *length, level >= VerifyLevel::hashes && damaged.contains(stored.path)};
    try {
      for (const IndexedPiece& piece : checkpoint.pieces_in(file)) {
        Survivor& tensor = tensors[piece.tensor];
        if (tensor.doubted.empty()) continue;
        add_intact(part, {tensor.name, tensor.layout.global, tensor.layout.dtype, piece.box}, piece.record,
                   tensor.boxes);
      }
    } catch (const Error&) {  // its table is gone, and with it all that it holds
    }
  }
  Losses losses;
  add_losses(losses, std::move(tensors));
  return losses;
}

Losses find_losses(const Path& checkpoint, VerifyLevel level) {
  Losses losses;
  losses.known_from = KnownFrom::parts;
  std::map<std::string, Survivor> tensors;
  for (const Path& path : parts_below(checkpoint)) {
    try {
      const PartState part{path, bytes_there(path).value_or(0), level >= VerifyLevel::hashes};
      const PartTable table = read_part_table(path);
      for (std::size_t i = 0; i < table.pieces.size(); ++i) {
        const PartPiece& piece = table.pieces[i];
        Layout layout;
        layout.global = piece.global;
        layout.dtype = piece.dtype;
        Survivor& tensor =
            tensors.try_emplace(piece.tensor, Survivor{piece.tensor, layout, {whole(piece.global)}, {}}).first->second;
        if (tensor.layout.global != piece.global || tensor.layout.dtype != piece.dtype)
          fail(ExitCode::input, "{} has {} with another shape or type than earlier parts", path.string(), piece.tensor);
        add_intact(part, piece, table.records[i], tensor.boxes);
      }
    } catch (const Error& error) {
      losses.untold.emplace_back(error.what());
    }
  }
  std::vector<Survivor> list;
  for (auto& [name, tensor] : tensors) list.push_back(std::move(tensor));
  add_losses(losses, std::move(list));
  return losses;
}

}  // namespace lockstep
