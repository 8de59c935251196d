// Records become samples: tokens, and which of them count as labels. One reader for each form that data.records names;
// text alone is read by corpus/json_lines.hpp. What then becomes of a sample: data/sample_shape.hpp.
#pragma once

#include "config/record_options.hpp"
#include "corpus/json_records.hpp"
#include "corpus/tokenizer.hpp"
#include "data/sample_shape.hpp"

#include <memory>
#include <string>

namespace lockstep {

struct MessageFormat;

/// Reads records on one thread.
class RecordReader {
 public:
  virtual ~RecordReader() = default;
  /// Throws BadRecord, or Error(input), for a record that cannot be used.
  virtual Sample read(const simdjson::dom::object& record) = 0;
  /// Encoder::left_out of the texts of all records so far.
  virtual std::uint64_t left_out() const { return 0; }
};

/// The tokenizer outlives the reader.
std::unique_ptr<RecordReader> tokenized_reader(const Tokenizer& tokenizer, const RecordOptions& options);
std::unique_ptr<RecordReader> prompt_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                            const MessageFormat* messages);
std::unique_ptr<RecordReader> message_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                             const MessageFormat& format);

/// The one of the options' form, which is not text. `messages`: null but for their form; it outlives the reader.
std::unique_ptr<RecordReader> record_reader(const Tokenizer& tokenizer, const RecordOptions& options,
                                            const MessageFormat* messages);

/// With the tokens that the options ask for. Throws Error(usage) where the tokenizer names none.
SampleShape sample_shape(const Tokenizer& tokenizer, const RecordOptions& options);

}  // namespace lockstep
