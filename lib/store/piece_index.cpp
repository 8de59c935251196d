#include "store/piece_index.hpp"

#include "base/error.hpp"
#include "store/hdf5.hpp"

#include <fcntl.h>

#include <cstring>

namespace lockstep {

namespace {

template <class Value>
void add_table(Hdf5File& file, const std::string& path, DType dtype, const Shape& shape,
               const std::vector<Value>& values) {
  file.add(path, dtype, shape, std::as_bytes(std::span(values)));
}

template <class Value>
std::vector<Value> read_table(const Hdf5File& file, const std::string& path, DType dtype, std::size_t rank,
                              const Path& where) {
  const Hdf5Dataset dataset = file.dataset(path);
  if (dataset.dtype != dtype || dataset.shape.size() != rank)
    fail(ExitCode::input, "{}: {} is no table of {}", where.string(), path, name_of(dtype));
  std::vector<Value> values(dataset.bytes / sizeof(Value));
  file.read(path, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

void write_piece_index(const Path& path, const std::vector<IndexedPiece>& pieces) {
  std::vector<std::uint32_t> tensors;
  std::vector<std::uint32_t> files;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> fingerprints;
  std::vector<std::uint64_t> first_box{0};  // one more than pieces: the end of the last
  std::vector<std::uint64_t> first_block{0};
  std::vector<std::int64_t> boxes;
  std::vector<std::uint64_t> blocks;
  for (const IndexedPiece& piece : pieces) {
    tensors.push_back(static_cast<std::uint32_t>(piece.tensor));
    files.push_back(static_cast<std::uint32_t>(piece.file));
    offsets.push_back(piece.record.offset);
    fingerprints.insert(fingerprints.end(), {piece.record.fingerprint.first, piece.record.fingerprint.second});
    boxes.insert(boxes.end(), piece.box.begin.begin(), piece.box.begin.end());
    boxes.insert(boxes.end(), piece.box.extent.begin(), piece.box.extent.end());
    for (const Hash128& block : piece.record.blocks) blocks.insert(blocks.end(), {block.high, block.low});
    first_box.push_back(boxes.size());
    first_block.push_back(blocks.size() / 2);
  }
  const auto count = static_cast<std::int64_t>(pieces.size());
  Hdf5File file = Hdf5File::create(path);
  file.set_attribute("/", "format", "lockstep.index");
  file.set_attribute("/", "version", 1);
  add_table(file, "/pieces/tensor", DType::u32, {count}, tensors);
  add_table(file, "/pieces/file", DType::u32, {count}, files);
  add_table(file, "/pieces/offset", DType::u64, {count}, offsets);
  add_table(file, "/pieces/fingerprint", DType::u64, {count, 2}, fingerprints);
  add_table(file, "/pieces/first_box", DType::u64, {count + 1}, first_box);
  add_table(file, "/pieces/first_block", DType::u64, {count + 1}, first_block);
  add_table(file, "/boxes", DType::i64, {static_cast<std::int64_t>(boxes.size())}, boxes);
  add_table(file, "/blocks", DType::u64, {static_cast<std::int64_t>(blocks.size() / 2), 2}, blocks);
  file.close();
  sync_file(open_file(path, O_RDONLY), path);
}

std::vector<IndexedPiece> parse_piece_index(std::string_view content, const Path& origin) {
  const Hdf5File file = Hdf5File::open_image(content, origin);
  const auto tensors = read_table<std::uint32_t>(file, "/pieces/tensor", DType::u32, 1, origin);
  const auto files = read_table<std::uint32_t>(file, "/pieces/file", DType::u32, 1, origin);
  const auto offsets = read_table<std::uint64_t>(file, "/pieces/offset", DType::u64, 1, origin);
  const auto fingerprints = read_table<std::uint64_t>(file, "/pieces/fingerprint", DType::u64, 2, origin);
  const auto first_box = read_table<std::uint64_t>(file, "/pieces/first_box", DType::u64, 1, origin);
  const auto first_block = read_table<std::uint64_t>(file, "/pieces/first_block", DType::u64, 1, origin);
  const auto boxes = read_table<std::int64_t>(file, "/boxes", DType::i64, 1, origin);
  const auto blocks = read_table<std::uint64_t>(file, "/blocks", DType::u64, 2, origin);
  const std::size_t count = tensors.size();
  if (files.size() != count || offsets.size() != count || fingerprints.size() != 2 * count ||
      first_box.size() != count + 1 || first_block.size() != count + 1) {
    fail(ExitCode::input, "{}: the tables have different lengths", origin.string());
  }
  std::vector<IndexedPiece> pieces(count);
  for (std::size_t i = 0; i < count; ++i) {
    const bool ordered = first_box[i] <= first_box[i + 1] && first_box[i + 1] <= boxes.size() &&
                         first_block[i] <= first_block[i + 1] && first_block[i + 1] <= blocks.size() / 2;
    if (!ordered || (first_box[i + 1] - first_box[i]) % 2 != 0)
      fail(ExitCode::input, "{}: piece {} points outside of the tables", origin.string(), i);
    const std::size_t dims = (first_box[i + 1] - first_box[i]) / 2;
    const auto box = boxes.begin() + static_cast<std::ptrdiff_t>(first_box[i]);
    const auto middle = box + static_cast<std::ptrdiff_t>(dims);
    pieces[i].tensor = tensors[i];
    pieces[i].file = files[i];
    pieces[i].box = {Shape(box, middle), Shape(middle, middle + static_cast<std::ptrdiff_t>(dims))};
    pieces[i].record.offset = offsets[i];
    pieces[i].record.fingerprint = {fingerprints[2 * i], fingerprints[2 * i + 1]};
    for (std::size_t block = first_block[i]; block < first_block[i + 1]; ++block)
      pieces[i].record.blocks.push_back({blocks[2 * block], blocks[2 * block + 1]});
  }
  return pieces;
}

}  // namespace lockstep
