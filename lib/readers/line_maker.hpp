// A reader that makes lines of JSON of the bytes of a file, a buffer at a time.
#pragma once

#include "readers/byte_reader.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class LineMaker : public ByteReader {
 public:
  /// Throws Error(input) in read() if the file is of a foreign kind (readers/foreign_content.hpp), or as taken() and
  /// end() do.
  LineMaker(std::unique_ptr<ByteReader> bytes, std::string file);

  std::size_t read(std::span<char> out) override;
  std::uint64_t consumed() const override { return bytes_->consumed(); }
  ReadContent content() const override { return bytes_->content(); }
  std::string warning() const override { return bytes_->warning(); }

 protected:
  /// Takes some of `text`, which is not empty, and returns the rest.
  virtual std::string_view taken(std::string_view text) = 0;
  /// The file has ended.
  virtual void end() = 0;

  std::string file_;
  std::string lines_;  // made, and not yet read

 private:
  void parse_next();

  std::unique_ptr<ByteReader> bytes_;
  std::vector<char> buffer_;
  bool at_begin_ = true, ended_ = false;
  std::size_t given_ = 0;  // bytes of lines_
};

}  // namespace lockstep
