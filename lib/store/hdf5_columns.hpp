// Columns are tables in an HDF5 file with one dataset per column, so that any tool can read them; text is JSON in
// bytes. HDF5 itself: store/hdf5.hpp.
#pragma once

#include "base/json.hpp"
#include "store/hdf5.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

template <class Value>
constexpr DType column_type() {
  if constexpr (std::is_same_v<Value, std::uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<Value, std::uint32_t>) return DType::u32;
  if constexpr (std::is_same_v<Value, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<Value, std::uint64_t>) return DType::u64;
}

/// Adds a new column with `width` values per row. Throws Error(storage).
template <class Value>
Hdf5Dataset add_column(Hdf5File& file, const std::string& path, const std::vector<Value>& values,
                       std::int64_t width = 1) {
  const std::int64_t rows = std::ssize(values) / width;
  return file.add(path, column_type<Value>(), width == 1 ? Shape{rows} : Shape{rows, width},
                  std::as_bytes(std::span(values)));
}

/// Reads a column. Throws Error(input) naming `where` if there is no column of this type and width.
template <class Value>
std::vector<Value> read_column(const Hdf5File& file, const std::string& path, const Path& where,
                               std::int64_t width = 1) {
  const Hdf5Dataset dataset = file.dataset(path);
  const bool fits = dataset.dtype == column_type<Value>() &&
                    (width == 1 ? dataset.shape.size() == 1 : dataset.shape.size() == 2 && dataset.shape[1] == width);
  if (!fits) fail(ExitCode::input, "{}: {} is no column of {}", where.string(), path, name_of(column_type<Value>()));
  std::vector<Value> values(dataset.bytes / sizeof(Value));
  file.read(path, std::as_writable_bytes(std::span(values)));
  return values;
}

inline void add_json(Hdf5File& file, const std::string& path, const Json& value) {
  const std::string text = to_text(value);
  file.add(path, DType::u8, {std::ssize(text)}, std::as_bytes(std::span(text)));
}

/// Throws Error(input) naming `where`.
inline Json read_json(const Hdf5File& file, const std::string& path, const Path& where) {
  return parse_json(file.read_text(path), where.string() + path);
}

/// A range of rows in a column.
struct ColumnRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};
/// Returns the range [first[i], first[i + 1]) of a column with `size` rows that belongs to row i of another column.
/// Throws Error(input), without an origin, if it is not a valid range.
inline ColumnRange column_range(const std::vector<std::uint64_t>& first, std::size_t i, std::size_t size) {
  if (first[i] > first[i + 1] || first[i + 1] > size) fail(ExitCode::input, "row {} points outside of its columns", i);
  return {first[i], first[i + 1]};
}

}  // namespace lockstep
