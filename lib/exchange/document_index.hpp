// Where documents start in a token file, as the index beside it says: Megatron's .idx and datatrove's .ds.index, read
// where they lie. The files themselves: exchange/token_files.hpp.
#pragma once

#include "exchange/token_files.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep {

/// The layout of an .idx of Megatron's IndexedDataset. Spans lie unaligned in the file.
struct MegatronIndex {
  static constexpr std::string_view magic{"MMIDIDX\0\0", 9};
  static constexpr std::uint64_t header_bytes = 34;

  DType dtype = DType::u16;
  std::uint64_t sequences = 0;
  std::uint64_t boundaries = 0;  // of documents, counted in sequences
  std::uint64_t lengths_at() const { return header_bytes; }
  std::uint64_t pointers_at() const { return header_bytes + sequences * sizeof(std::int32_t); }
  std::uint64_t boundaries_at() const { return pointers_at() + sequences * sizeof(std::int64_t); }

  /// Of the header in the first bytes of a file of `bytes`. Throws Error(input) without the file's name.
  static MegatronIndex read(std::span<const std::byte> header, std::uint64_t bytes);
  /// The number that the format has for a type; 0 for one that it has none for.
  static int code_of(DType dtype);
};

/// Its functions throw Error(storage) if the file cannot be read any more.
class DocumentIndex {
 public:
  /// Maps the index of the file, which has one. Throws Error(input) naming it if its length is not what it announces.
  explicit DocumentIndex(const TokenFile& file);

  /// Reads all of it; calls `alive` as it gets on. Throws Error(input), with the place, unless documents and sequences
  /// follow one another and make up the tokens of the file.
  void check(const std::function<void()>& alive) const;
  /// Tokens of the file in [begin, end) at which a document starts, ascending; of empty documents none. Once checked.
  std::vector<std::uint64_t> starts(std::uint64_t begin, std::uint64_t end) const;
  /// The first start at or behind a token; nothing if there is none.
  std::optional<std::uint64_t> start_from(std::uint64_t token) const;

 private:
  std::uint64_t entries() const;
  std::uint64_t entry(std::uint64_t number) const;  // where document `number` starts; it may be empty
  std::uint64_t first_entry_from(std::uint64_t token) const;
  void check_megatron(const std::function<void()>& alive) const;
  void check_datatrove(const std::function<void()>& alive) const;

  TokenFile file_;
  MappedFile map_;
  MegatronIndex megatron_;
};

}  // namespace lockstep
