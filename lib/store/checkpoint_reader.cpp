#include "store/checkpoint_reader.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "store/box_runs.hpp"
#include "store/stored_file.hpp"

#include <algorithm>
#include <cstring>

namespace lockstep {

struct CheckpointReader::Block {
  const IndexedPiece* piece = nullptr;
  std::size_t number = 0;
  std::vector<std::byte> bytes;
  std::size_t file = 0;
  FileDescriptor descriptor;  // of `file`; kept open, for the next block is mostly in the same one
};

CheckpointReader::CheckpointReader(Path checkpoint)
    : path_(std::move(checkpoint)), manifest_(read_manifest(path_)), last_(std::make_unique<Block>()) {
  const Path index = path_ / index_file;
  const auto listed = std::find_if(manifest_.files.begin(), manifest_.files.end(),
                                   [](const StoredFile& file) { return file.path == index_file; });
  if (listed == manifest_.files.end())
    fail(ExitCode::input, "{} lists no {}", (path_ / manifest_file).string(), index_file);
  const std::string content = read_stored(index);
  if (hash128(content) != listed->hash)
    fail(ExitCode::input, "{}: its content does not match the hash in the manifest", index.string());
  pieces_ = parse_piece_index(content, index);
  first_piece_.assign(manifest_.tensors.size() + 1, pieces_.size());
  for (std::size_t i = pieces_.size(); i-- > 0;) {
    const IndexedPiece& piece = pieces_[i];
    const bool ordered = piece.tensor < manifest_.tensors.size() && piece.file < manifest_.files.size() &&
                         (i == 0 || pieces_[i - 1].tensor <= piece.tensor);
    if (!ordered) fail(ExitCode::input, "{}: piece {} is not of this checkpoint", index.string(), i);
    check_piece(index, i);
    first_piece_[piece.tensor] = i;
  }
  for (std::size_t i = manifest_.tensors.size(); i-- > 0;)
    first_piece_[i] = std::min(first_piece_[i], first_piece_[i + 1]);
  for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest_.tensors[i];
    const std::string name = full_name(tensor);
    number_[name] = i;
    if (is_values(tensor)) continue;
    descriptions_.push_back({name, known_shape(tensor.layout), tensor.layout.dtype});
    for (const std::string& alias : tensor.aliases)
      number_[name.substr(0, name.size() - tensor.name.size()) + alias] = i;
  }
}

// A piece lies in its tensor and in its file, with a hash for each of its blocks: whoever reads on may rely on it.
void CheckpointReader::check_piece(const Path& index, std::size_t number) const {
  const IndexedPiece& piece = pieces_[number];
  const Layout& layout = manifest_.tensors[piece.tensor].layout;
  const StoredFile& file = manifest_.files[piece.file];
  if (!lies_in(piece.box, layout.global))
    fail(ExitCode::input, "{}: piece {} lies outside of {}", index.string(), number,
         full_name(manifest_.tensors[piece.tensor]));
  const auto bytes =
      static_cast<std::uint64_t>(elements(piece.box)) * static_cast<std::uint64_t>(size_of(layout.dtype));
  const bool in_file = bytes == 0 || (piece.record.offset <= file.bytes && bytes <= file.bytes - piece.record.offset);
  if (!in_file || piece.record.blocks.size() != (bytes + block_bytes - 1) / block_bytes) {
    fail(ExitCode::input, "{}: piece {} of {} bytes at {} does not fit {} of {} bytes", index.string(), number, bytes,
         piece.record.offset, file.path, file.bytes);
  }
}

CheckpointReader::~CheckpointReader() = default;

std::pair<std::size_t, std::size_t> CheckpointReader::pieces_of(std::size_t tensor) const {
  return {first_piece_[tensor], first_piece_[tensor + 1]};
}

std::optional<std::size_t> CheckpointReader::find_tensor(const std::string& name) const {
  const auto found = number_.find(name);
  return found == number_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t CheckpointReader::number_of(const std::string& name) const {
  if (const auto number = find_tensor(name)) return *number;
  std::vector<std::string> names;
  for (const auto& entry : number_) names.push_back(entry.first);
  const auto near = nearest(name, names);
  throw Error(ExitCode::input, fmt::format("{} holds no '{}'", path_.string(), name),
              near ? fmt::format("the nearest name is '{}'", *near) : "");
}

void CheckpointReader::read(const std::string& name, const Box& box, std::span<std::byte> out) const {
  const std::size_t number = number_of(name);
  read(number, known_shape(manifest_.tensors[number].layout), box, out);
}

// What is stored by boxes of another view is read whole: they have no boxes in common.
void CheckpointReader::read(std::size_t tensor, const Shape& as, const Box& box, std::span<std::byte> out) const {
  const Layout& stored = manifest_.tensors.at(tensor).layout;
  if (as == stored.global || empty(box)) return read(tensor, box, out);
  const auto size = static_cast<std::size_t>(size_of(stored.dtype));
  invariant(elements(as) == elements(stored.global) && contains(whole(as), box) &&
                out.size() == static_cast<std::size_t>(elements(box)) * size,
            "a tensor is read as a view of its elements, into the bytes of a box of it");
  std::vector<std::byte> all(static_cast<std::size_t>(elements(as)) * size);
  read(tensor, whole(stored.global), all);
  for_each_run(box, whole(as), box, [&](const BoxRun& run) {
    std::memcpy(out.data() + static_cast<std::size_t>(run.in_b) * size,
                all.data() + static_cast<std::size_t>(run.in_a) * size, static_cast<std::size_t>(run.length) * size);
  });
}

void CheckpointReader::read(std::size_t tensor, const Box& box, std::span<std::byte> out) const {
  const StoredTensor& stored = manifest_.tensors.at(tensor);
  if (box.extent.size() != stored.layout.global.size() ||
      (!empty(box) && !contains(whole(stored.layout.global), box))) {
    fail(ExitCode::input, "the box {} lies outside of {} {}", to_text(box), full_name(stored),
         to_text(stored.layout.global));
  }
  invariant(
      out.size() == static_cast<std::size_t>(elements(box)) * static_cast<std::size_t>(size_of(stored.layout.dtype)),
      "the output has the bytes of the box");
  if (empty(box)) return;
  std::int64_t found = 0;
  const auto [first, last] = pieces_of(tensor);
  for (std::size_t i = first; i < last; ++i) {
    const Box part = intersect(pieces_[i].box, box);
    if (empty(part)) continue;
    copy_piece(pieces_[i], box, out);
    found += elements(part);
  }
  if (found != elements(box))
    fail(ExitCode::input, "{}: {} of {} elements of {} {} are in no piece", path_.string(), elements(box) - found,
         elements(box), full_name(stored), to_text(box));
}

std::string CheckpointReader::values_text(const std::string& component, const std::string& cell) const {
  for (std::size_t i = 0; i < manifest_.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest_.tensors[i];
    if (!is_values(tensor) || tensor.component != component || tensor.cell != (cell == "all" ? "" : cell)) continue;
    constexpr std::int64_t most = std::int64_t{1} << 30;  // small values: a damaged shape must not become an allocation
    const std::int64_t size = elements(tensor.layout.global);
    if (size > most || size_of(tensor.layout.dtype) != 1)
      fail(ExitCode::input, "{}: {} is no text of values", path_.string(), full_name(tensor));
    std::string text(static_cast<std::size_t>(size), '\0');
    read(i, whole(tensor.layout.global), std::as_writable_bytes(std::span(text)));
    return text;
  }
  return {};
}

// It goes block by block, so that each byte is checked before it is used and no more than a block is held.
void CheckpointReader::copy_piece(const IndexedPiece& piece, const Box& box, std::span<std::byte> out) const {
  const auto size = static_cast<std::int64_t>(size_of(manifest_.tensors[piece.tensor].layout.dtype));
  const std::int64_t per_block = static_cast<std::int64_t>(block_bytes) / size;
  const Box part = intersect(piece.box, box);
  std::vector<BoxRun> runs;
  for_each_run(part, piece.box, box, [&](const BoxRun& run) { runs.push_back(run); });
  const std::lock_guard lock(mutex_);
  for (const BoxRun& run : runs) {
    for (std::int64_t done = 0; done < run.length;) {
      const std::int64_t at = run.in_a + done;
      const std::int64_t count = std::min(run.length - done, (at / per_block + 1) * per_block - at);
      const std::vector<std::byte>& block = block_of(piece, static_cast<std::size_t>(at / per_block));
      std::memcpy(out.data() + (run.in_b + done) * size, block.data() + at % per_block * size,
                  static_cast<std::size_t>(count * size));
      done += count;
    }
  }
}

const std::vector<std::byte>& CheckpointReader::block_of(const IndexedPiece& piece, std::size_t block) const {
  if (last_->piece == &piece && last_->number == block) return last_->bytes;
  last_->piece = nullptr;
  const StoredTensor& tensor = manifest_.tensors[piece.tensor];
  const Path file = path_ / manifest_.files[piece.file].path;
  if (last_->descriptor.get() < 0 || last_->file != piece.file) {
    last_->descriptor = open_stored(file);
    last_->file = piece.file;
  }
  const std::uint64_t bytes = bytes_of({full_name(tensor), tensor.layout.global, tensor.layout.dtype, piece.box});
  const std::uint64_t begin = block * block_bytes;
  if (block >= piece.record.blocks.size() || begin >= bytes)
    fail(ExitCode::input, "{}: the index lacks block {} of {} {}", path_.string(), block, full_name(tensor),
         to_text(piece.box));
  last_->bytes.resize(std::min(block_bytes, bytes - begin));
  const std::uint64_t offset = piece.record.offset + begin;
  read_stored(last_->descriptor, last_->bytes, offset, file);
  if (hash128(last_->bytes) != piece.record.blocks[block]) {
    throw Error(ExitCode::input,
                fmt::format("{} is damaged: {} {} does not match its hash (bytes {} to {} of the file)", file.string(),
                            full_name(tensor), to_text(piece.box), offset, offset + last_->bytes.size()),
                "checkpoint-inspect --verify=hashes lists all damage");
  }
  last_->piece = &piece;
  last_->number = block;
  return last_->bytes;
}

namespace {

// The view of one component: names without prefix, and aliases as tensors of their own.
class ComponentSource final : public TensorSource {
 public:
  ComponentSource(const Path& checkpoint, std::string component) : reader_(checkpoint), prefix_(component + "/") {
    if (find_component(reader_.manifest(), component) == nullptr)
      fail(ExitCode::input, "{} holds no component '{}'", checkpoint.string(), component);
    for (const StoredTensor& tensor : reader_.manifest().tensors) {
      if (tensor.component != component || !tensor.cell.empty() || is_values(tensor)) continue;
      descriptions_.push_back({tensor.name, known_shape(tensor.layout), tensor.layout.dtype});
      for (const std::string& alias : tensor.aliases)
        descriptions_.push_back({alias, known_shape(tensor.layout), tensor.layout.dtype});
    }
  }
  const std::vector<TensorDescription>& list() const override { return descriptions_; }
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const override {
    reader_.read(prefix_ + name, box, out);
  }

 private:
  CheckpointReader reader_;
  std::string prefix_;
  std::vector<TensorDescription> descriptions_;
};

}  // namespace

std::unique_ptr<TensorSource> open_component(const Path& checkpoint, const std::string& component) {
  return std::make_unique<ComponentSource>(checkpoint, component);
}
std::unique_ptr<TensorSource> open_model(const Path& checkpoint) { return open_component(checkpoint, "model"); }

}  // namespace lockstep
