// Turns records into samples: tokens, and a mask of the ones that count as labels. There is a reader for each
// form of data.records. Records of text: readers/json_lines.hpp. Limits on the length of samples:
// prepare/sample_shape.hpp.
#pragma once

#include "config/record_options.hpp"
#include "prepare/sample_shape.hpp"
#include "readers/json_records.hpp"
#include "tokenizer/tokenizer.hpp"

#include <memory>
#include <string>

namespace lockstep {

struct MessageFormat;

/// Reads records on one thread.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  /// Returns the sample of a record. Throws BadRecord or Error(input) for a record that cannot be used.
  virtual Sample read(const simdjson::dom::object& record) = 0;
  /// Returns the sum of Encoder::left_out over the texts of all records so far.
  virtual std::uint64_t left_out() const { return 0; }
};

/// Return the reader of one form. The tokenizer must outlive it.
std::unique_ptr<RecordReader> tokenized_reader(const Tokenizer& tokenizer, const RecordOptions& options);
std::unique_ptr<RecordReader> prompt_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                            const MessageFormat* messages);
std::unique_ptr<RecordReader> instruction_reader(const Tokenizer& tokenizer, const RecordOptions& options);
std::unique_ptr<RecordReader> message_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                             const MessageFormat& format);

/// Returns the reader of the options' form, which must not be text. `messages`: null for forms without messages; it
/// must outlive the reader.
std::unique_ptr<RecordReader> record_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                            const MessageFormat* messages);

/// Returns the shape with the tokens that the options add. Throws Error(usage) if the tokenizer names none.
SampleShape sample_shape(const Tokenizer& tokenizer, const RecordOptions& options);

}  // namespace lockstep
