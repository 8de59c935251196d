#include "store/part_table.hpp"

#include "base/error.hpp"
#include "base/json_form.hpp"
#include "base/json_integer.hpp"
#include "layout/box_runs.hpp"
#include "layout/layout_json.hpp"
#include "store/hdf5_columns.hpp"
#include "store/stored_file.hpp"

#include <cstring>
#include <map>

namespace lockstep {

namespace {

struct Columns {
  std::string tensors;                // JSON: [["model/wte.weight", [37, 8], "fp32"], …], each tensor once
  std::vector<std::uint32_t> tensor;  // of each piece: number in `tensors`
  std::vector<std::uint64_t> first_box{0};
  std::vector<std::int64_t> boxes;  // begin, then extent, of each piece
  std::vector<std::uint64_t> offset;
  std::vector<std::int64_t> packed_at;
  std::vector<std::uint64_t> first_block{0};
  std::vector<std::uint64_t> fingerprints;  // two a piece
  std::vector<std::uint64_t> blocks;        // high and low half of each
};

std::array<std::span<const std::byte>, 9> bytes_of(const Columns& columns) {
  const auto bytes = [](const auto& column) { return std::as_bytes(std::span(column)); };
  return {bytes(columns.tensors),     bytes(columns.tensor),       bytes(columns.first_box),
          bytes(columns.boxes),       bytes(columns.offset),       bytes(columns.packed_at),
          bytes(columns.first_block), bytes(columns.fingerprints), bytes(columns.blocks)};
}

Columns columns_of(const PartTable& table) {
  Columns columns;
  Json tensors = Json::array();
  std::map<std::string, std::uint32_t> number;
  for (std::size_t i = 0; i < table.pieces.size(); ++i) {
    const PartPiece& piece = table.pieces[i];
    const PieceRecord& record = table.records[i];
    const auto [known, is_new] = number.try_emplace(piece.tensor, static_cast<std::uint32_t>(tensors.size()));
    if (is_new) tensors.push_back(Json::array({piece.tensor, piece.global, name_of(piece.dtype)}));
    columns.tensor.push_back(known->second);
    columns.boxes.insert(columns.boxes.end(), piece.box.begin.begin(), piece.box.begin.end());
    columns.boxes.insert(columns.boxes.end(), piece.box.extent.begin(), piece.box.extent.end());
    columns.first_box.push_back(columns.boxes.size());
    columns.offset.push_back(record.offset);
    columns.packed_at.push_back(record.packed_at);
    for (const Hash128& block : record.blocks) columns.blocks.insert(columns.blocks.end(), {block.high, block.low});
    columns.first_block.push_back(columns.blocks.size() / 2);
    columns.fingerprints.insert(columns.fingerprints.end(), {record.fingerprint.first, record.fingerprint.second});
  }
  columns.tensors = to_text(tensors);
  return columns;
}

// Without boxes.
std::vector<PartPiece> tensors_from(const Json& entries) {
  std::vector<PartPiece> tensors;
  for (const Json& entry : entries) {
    const std::string dtype = entry.at(2);
    const auto parsed = parse_dtype(dtype);
    if (!parsed) fail(ExitCode::input, "unknown element type '{}'", dtype);
    tensors.push_back({entry.at(0), integers_from<std::int64_t>(entry.at(1)), *parsed, {}});
    check_shape(tensors.back().global);
  }
  return tensors;
}

PartTable table_from(const Columns& columns) {
  const std::size_t count = columns.tensor.size();
  if (columns.first_box.size() != count + 1 || columns.offset.size() != count || columns.packed_at.size() != count ||
      columns.first_block.size() != count + 1 || columns.fingerprints.size() != 2 * count)
    fail(ExitCode::input, "the columns have different lengths");
  PartTable table;
  const std::vector<PartPiece> tensors = tensors_from(parse_json(columns.tensors, "tensors"));
  for (std::size_t i = 0; i < count; ++i) {
    if (columns.tensor[i] >= tensors.size())
      fail(ExitCode::input, "piece {} refers to a tensor that does not exist", i);
    PartPiece piece = tensors[columns.tensor[i]];
    const auto [begin, end] = column_range(columns.first_box, i, columns.boxes.size());
    const auto at = columns.boxes.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto dims = static_cast<std::ptrdiff_t>((end - begin) / 2);
    piece.box = {Shape(at, at + dims), Shape(at + dims, at + 2 * dims)};
    if ((end - begin) % 2 != 0 || !lies_in(piece.box, piece.global))
      fail(ExitCode::input, "a piece of '{}' lies outside of it", piece.tensor);
    PieceRecord record{.offset = columns.offset[i],
                       .packed_at = columns.packed_at[i],
                       .fingerprint = {columns.fingerprints[2 * i], columns.fingerprints[2 * i + 1]}};
    const std::uint64_t most = record.offset / static_cast<std::uint64_t>(size_of(piece.dtype));  // elements before it
    if (record.packed_at < -1 || (record.packed_at > 0 && static_cast<std::uint64_t>(record.packed_at) > most))
      fail(ExitCode::input, "{} {} has an invalid place in its dataset", piece.tensor, to_text(piece.box));
    const auto [first, last] = column_range(columns.first_block, i, columns.blocks.size() / 2);
    if (last - first != (bytes_of(piece) + block_bytes - 1) / block_bytes)
      fail(ExitCode::input, "{} {} has a wrong number of blocks: {}", piece.tensor, to_text(piece.box), last - first);
    for (std::size_t block = first; block < last; ++block)
      record.blocks.push_back({columns.blocks[2 * block], columns.blocks[2 * block + 1]});
    table.pieces.push_back(std::move(piece));
    table.records.push_back(std::move(record));
  }
  return table;
}

// The same, with the part in the message.
PartTable table_of(const Path& path, const Columns& columns) {
  try {
    return table_from(columns);
  } catch (const Error& error) {
    fail(ExitCode::input, "the table of {}: {}", path.string(), error.what());
  } catch (const nlohmann::json::exception& error) {
    fail(ExitCode::input, "the table of {} is malformed: {}", path.string(), form_problem(error));
  }
}

}  // namespace

std::uint64_t bytes_of(const PartPiece& piece) {
  return static_cast<std::uint64_t>(elements(piece.box)) * static_cast<std::uint64_t>(size_of(piece.dtype));
}

bool is_packed(const PartPiece& piece) { return bytes_of(piece) < packed_below; }

std::string dataset_of(const PartPiece& piece, const PieceRecord& record) {
  return record.packed_at >= 0 ? fmt::format("/packed/{}", name_of(piece.dtype))
                               : fmt::format("/{}/{}", piece.tensor, path_text(piece.box));
}

Hash128 hash_of(const PartTable& table) {
  const Columns columns = columns_of(table);
  StreamHash hash;
  for (const auto column : bytes_of(columns)) hash.add(column);
  return hash.digest();
}

TableColumns add_table(Hdf5File& part, const PartTable& table) {
  const Columns columns = columns_of(table);
  const std::array<Hdf5Dataset, 9> datasets{
      part.add("/_index/tensors", DType::u8, {std::ssize(columns.tensors)}, std::as_bytes(std::span(columns.tensors))),
      add_column(part, "/_index/tensor", columns.tensor),
      add_column(part, "/_index/first_box", columns.first_box),
      add_column(part, "/_index/boxes", columns.boxes),
      add_column(part, "/_index/offset", columns.offset),
      add_column(part, "/_index/packed_at", columns.packed_at),
      add_column(part, "/_index/first_block", columns.first_block),
      add_column(part, "/_index/fingerprints", columns.fingerprints, 2),
      add_column(part, "/_index/blocks", columns.blocks, 2)};
  TableColumns places;
  for (std::size_t i = 0; i < datasets.size(); ++i) places[i] = {datasets[i].offset, datasets[i].bytes};
  return places;
}

void complete_table(const FileDescriptor& part, const TableColumns& places, const PartTable& table, const Path& path) {
  const Columns columns = columns_of(table);
  write_at(part, std::as_bytes(std::span(columns.fingerprints)), places[7].offset, path);
  write_at(part, std::as_bytes(std::span(columns.blocks)), places[8].offset, path);
}

std::string read_table_bytes(const Path& path, const TableColumns& places) {
  const FileDescriptor file = open_stored(path);
  const std::uint64_t length = length_of(path).value_or(0);
  std::string bytes;
  for (const ByteRange& place : places) {
    if (place.offset > length || place.bytes > length - place.offset)  // as read_stored says it, before there is room
      fail(ExitCode::storage, "{} ends at byte {}, before the end of its table", path.string(), length);
    const std::size_t so_far = bytes.size();
    bytes.resize(so_far + place.bytes);
    read_stored(file, std::as_writable_bytes(std::span(bytes).subspan(so_far)), place.offset, path);
  }
  return bytes;
}

PartTable parse_part_table(std::string_view bytes, const TableColumns& places, const Hash128& hash, const Path& path) {
  std::uint64_t length = 0;
  for (const ByteRange& place : places) length += place.bytes;
  if (bytes.size() != length || hash128(bytes) != hash)
    throw Error(ExitCode::input, fmt::format("{} is damaged: its table does not match its hash", path.string()),
                "checkpoint-inspect --verify=hashes lists all damage");
  Columns columns;
  const auto take = [&](auto& column, const ByteRange& place) {
    column.resize(place.bytes / sizeof(column[0]));
    if (!column.empty()) std::memcpy(column.data(), bytes.data(), column.size() * sizeof(column[0]));
    bytes.remove_prefix(place.bytes);
  };
  take(columns.tensors, places[0]);
  take(columns.tensor, places[1]);
  take(columns.first_box, places[2]);
  take(columns.boxes, places[3]);
  take(columns.offset, places[4]);
  take(columns.packed_at, places[5]);
  take(columns.first_block, places[6]);
  take(columns.fingerprints, places[7]);
  take(columns.blocks, places[8]);
  return table_of(path, columns);
}

PartTable read_part_table(const Path& path, const TableColumns& places, const Hash128& hash) {
  return parse_part_table(read_table_bytes(path, places), places, hash, path);
}

PartTable read_part_table(const Path& path) {
  const Hdf5File part = Hdf5File::open(path);
  Columns columns;
  columns.tensors = part.read_text("/_index/tensors");
  columns.tensor = read_column<std::uint32_t>(part, "/_index/tensor", path);
  columns.first_box = read_column<std::uint64_t>(part, "/_index/first_box", path);
  columns.boxes = read_column<std::int64_t>(part, "/_index/boxes", path);
  columns.offset = read_column<std::uint64_t>(part, "/_index/offset", path);
  columns.packed_at = read_column<std::int64_t>(part, "/_index/packed_at", path);
  columns.first_block = read_column<std::uint64_t>(part, "/_index/first_block", path);
  columns.fingerprints = read_column<std::uint64_t>(part, "/_index/fingerprints", path, 2);
  columns.blocks = read_column<std::uint64_t>(part, "/_index/blocks", path, 2);
  return table_of(path, columns);
}

}  // namespace lockstep
