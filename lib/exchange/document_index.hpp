// The starts of documents in a token file, from its index: Megatron's .idx and datatrove's .ds.index. The index is
// mapped, not copied. The token files: exchange/token_files.hpp.
#pragma once

#include "exchange/token_files.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// The layout of an .idx file of Megatron's IndexedDataset. Arrays are not aligned in the file.
struct MegatronIndex {
  static constexpr std::string_view magic{"MMIDIDX\0\0", 9};
  static constexpr std::uint64_t header_bytes = 34;

  DType dtype = DType::u16;
  std::uint64_t sequences = 0;
  std::uint64_t boundaries = 0;  // document boundaries, counted in sequences
  std::uint64_t lengths_at() const { return header_bytes; }
  std::uint64_t pointers_at() const { return header_bytes + sequences * sizeof(std::int32_t); }
  std::uint64_t boundaries_at() const { return pointers_at() + sequences * sizeof(std::int64_t); }

  /// Reads the header of a file of `bytes` bytes. Throws Error(input) without the file's name.
  static MegatronIndex read(std::span<const std::byte> header, std::uint64_t bytes);
  /// Returns the format's number for a type; 0 if it has none.
  static int code_of(DType dtype);
};

/// An open index. All functions throw Error(storage) if the file becomes unreadable.
class DocumentIndex {
 public:
  /// Maps the index of a file that has one. Throws Error(input) naming the index if its header is malformed or its
  /// length is wrong.
  explicit DocumentIndex(const TokenFile& file);

  /// Reads the whole index and calls `alive` during the work. Throws Error(input), with the place, unless documents and
  /// sequences are contiguous and cover the tokens of the file.
  void check(const std::function<void()>& alive) const;
  /// Returns the tokens in [begin, end) at which documents start, ascending. Empty documents are left out. Call check()
  /// first.
  std::vector<std::uint64_t> starts(std::uint64_t begin, std::uint64_t end) const;
  /// Returns the first start at or after a token; nothing if there is none.
  std::optional<std::uint64_t> start_from(std::uint64_t token) const;

 private:
  std::uint64_t entries() const;
  std::uint64_t entry(std::uint64_t number) const;  // start of document `number`, which may be empty
  std::uint64_t first_entry_from(std::uint64_t token) const;
  void check_megatron(const std::function<void()>& alive) const;
  void check_datatrove(const std::function<void()>& alive) const;

  TokenFile file_;
  MappedFile map_;
  MegatronIndex megatron_;
};

}  // namespace lockstep
