// The plug-in that reads Parquet and Arrow files. What it offers: readers/table_files.hpp.
#include "readers/arrow_files.hpp"
#include "readers/json_string.hpp"
#include "readers/table_files.hpp"

#include <arrow/api.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/ree_util.h>
#include <arrow/util/utf8.h>
#include <parquet/arrow/reader.h>
#include <parquet/properties.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using arrow::Type;
using lockstep::copy_error_message;
using lockstep::open_to_read;
using lockstep::value_of;

template <class Number>
void append_number(std::string& json, Number value) {
  char digits[32];
  json.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

// Whether JSON has a form for values of a type.
bool has_form(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::FIXED_SIZE_BINARY:
    case Type::SPARSE_UNION:
    case Type::DENSE_UNION: return false;
    case Type::RUN_END_ENCODED: return has_form(*static_cast<const arrow::RunEndEncodedType&>(type).value_type());
    case Type::EXTENSION: return has_form(*static_cast<const arrow::ExtensionType&>(type).storage_type());
    case Type::DICTIONARY: return has_form(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case Type::STRUCT: return true;
    default:
      for (const auto& field : type.fields())
        if (!has_form(*field->type())) return false;
      return true;
  }
}

template <class Array>
const Array& as(const arrow::Array& array) {
  return static_cast<const Array&>(array);
}

class RowWriter {
 public:
  explicit RowWriter(std::string& json) : json_(json) {}

  // The fields of a batch or of a struct that have a form.
  void object(const arrow::FieldVector& fields, const std::vector<std::shared_ptr<arrow::Array>>& columns,
              std::int64_t row) {
    char next = '{';
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (!has_form(*fields[i]->type())) continue;
      json_ += next;
      next = ',';
      lockstep::append_json_string(json_, fields[i]->name());
      json_ += ':';
      value(*columns[i], row);
    }
    if (next == '{') json_ += '{';
    json_ += '}';
  }

 private:
  void value(const arrow::Array& array, std::int64_t row) {
    if (array.IsNull(row)) {
      json_ += "null";
      return;
    }
    switch (array.type_id()) {
      case Type::BOOL: json_ += as<arrow::BooleanArray>(array).Value(row) ? "true" : "false"; return;
      case Type::INT8: return append_number(json_, int{as<arrow::Int8Array>(array).Value(row)});
      case Type::INT16: return append_number(json_, as<arrow::Int16Array>(array).Value(row));
      case Type::INT32: return append_number(json_, as<arrow::Int32Array>(array).Value(row));
      case Type::INT64: return append_number(json_, as<arrow::Int64Array>(array).Value(row));
      case Type::UINT8: return append_number(json_, int{as<arrow::UInt8Array>(array).Value(row)});
      case Type::UINT16: return append_number(json_, as<arrow::UInt16Array>(array).Value(row));
      case Type::UINT32: return append_number(json_, as<arrow::UInt32Array>(array).Value(row));
      case Type::UINT64: return append_number(json_, as<arrow::UInt64Array>(array).Value(row));
      case Type::FLOAT: return real(as<arrow::FloatArray>(array).Value(row));
      case Type::DOUBLE: return real(as<arrow::DoubleArray>(array).Value(row));
      case Type::STRING: return lockstep::append_json_string(json_, as<arrow::StringArray>(array).GetView(row));
      case Type::LARGE_STRING:
        return lockstep::append_json_string(json_, as<arrow::LargeStringArray>(array).GetView(row));
      case Type::STRING_VIEW:
        return lockstep::append_json_string(json_, as<arrow::StringViewArray>(array).GetView(row));
      case Type::BINARY: return bytes(as<arrow::BinaryArray>(array).GetView(row));
      case Type::LARGE_BINARY: return bytes(as<arrow::LargeBinaryArray>(array).GetView(row));
      case Type::BINARY_VIEW: return bytes(as<arrow::BinaryViewArray>(array).GetView(row));
      case Type::DICTIONARY: {
        const auto& entries = as<arrow::DictionaryArray>(array);
        return value(*entries.dictionary(), entries.GetValueIndex(row));
      }
      case Type::RUN_END_ENCODED: {
        const auto& runs = as<arrow::RunEndEncodedArray>(array);
        const arrow::ArraySpan span(*array.data());
        return value(*runs.values(), arrow::ree_util::FindPhysicalIndex(span, row, array.offset()));
      }
      case Type::EXTENSION: return value(*as<arrow::ExtensionArray>(array).storage(), row);
      case Type::LIST: return list(as<arrow::ListArray>(array), row);
      case Type::LARGE_LIST: return list(as<arrow::LargeListArray>(array), row);
      case Type::FIXED_SIZE_LIST: return list(as<arrow::FixedSizeListArray>(array), row);
      case Type::LIST_VIEW: return list(as<arrow::ListViewArray>(array), row);
      case Type::LARGE_LIST_VIEW: return list(as<arrow::LargeListViewArray>(array), row);
      case Type::MAP: return map(as<arrow::MapArray>(array), row);
      case Type::STRUCT: {
        const auto& group = as<arrow::StructArray>(array);
        return object(group.type()->fields(), group.fields(), row);
      }
      // Times and decimals as Arrow writes them.
      default: lockstep::append_json_string(json_, value_of(array.GetScalar(row))->ToString());
    }
  }

  // Older writers leave the mark of text out.
  void bytes(std::string_view value) {
    if (arrow::util::ValidateUTF8(value)) {
      lockstep::append_json_string(json_, value);
    } else {
      json_ += "null";
    }
  }

  template <class Real>
  void real(Real value) {
    if (!std::isfinite(value)) {
      json_ += "null";
    } else {
      append_number(json_, value);
    }
  }

  template <class List>
  void list(const List& array, std::int64_t row) {
    json_ += '[';
    for (std::int64_t i = 0; i < array.value_length(row); ++i) {
      if (i > 0) json_ += ',';
      value(*array.values(), array.value_offset(row) + i);
    }
    json_ += ']';
  }

  // An object where keys are text, else its pairs.
  void map(const arrow::MapArray& array, std::int64_t row) {
    const Type::type keys = array.keys()->type_id();
    const bool keyed = keys == Type::STRING || keys == Type::LARGE_STRING || keys == Type::STRING_VIEW;
    json_ += keyed ? '{' : '[';
    for (std::int64_t i = 0; i < array.value_length(row); ++i) {
      const std::int64_t at = array.value_offset(row) + i;
      if (i > 0) json_ += ',';
      if (!keyed) json_ += '[';
      value(*array.keys(), at);
      json_ += keyed ? ':' : ',';
      value(*array.items(), at);
      if (!keyed) json_ += ']';
    }
    json_ += keyed ? '}' : ']';
  }

  std::string& json_;
};

class Table {
 public:
  Table(const std::string& path, bool parquet) {
    arrow::util::InitializeUTF8();
    file_ = open_to_read(path);
    bytes_ = static_cast<std::uint64_t>(value_of(file_->GetSize()));
    if (parquet) {
      open_parquet();
    } else {
      open_arrow(path);
    }
  }
  ~Table() {
    if (stream_) static_cast<void>(stream_->Close());
  }

  std::int64_t read(char* out, std::size_t bytes) {
    while (given_ == lines_.size()) {
      lines_.clear();
      given_ = 0;
      if (!batch_ || row_ == batch_->num_rows()) {
        if (!next_batch()) return 0;
        continue;
      }
      RowWriter writer(lines_);
      for (; row_ < batch_->num_rows() && lines_.size() < most_lines; ++row_) {
        writer.object(batch_->schema()->fields(), batch_->columns(), row_);
        lines_ += '\n';
      }
    }
    const std::size_t count = std::min(bytes, lines_.size() - given_);
    std::memcpy(out, lines_.data() + given_, count);
    given_ += count;
    return static_cast<std::int64_t>(count);
  }

  std::uint64_t consumed() const {
    if (ended_) return bytes_;
    if (rows_ > 0)
      return static_cast<std::uint64_t>(static_cast<double>(bytes_) * static_cast<double>(begun_) /
                                        static_cast<double>(rows_));
    if (batches_)
      return bytes_ * static_cast<std::uint64_t>(next_) /
             static_cast<std::uint64_t>(std::max(1, batches_->num_record_batches()));
    const auto at = file_->Tell();
    return at.ok() ? std::min(bytes_, static_cast<std::uint64_t>(*at)) : 0;
  }

 private:
  static constexpr std::size_t most_lines = std::size_t{1} << 18;

  void open_parquet() {
    parquet::ReaderProperties properties;
    properties.enable_buffered_stream();  // not a whole group of rows in memory
    parquet::ArrowReaderProperties forms;
    forms.set_batch_size(1 << 12);
    forms.set_pre_buffer(false);
    parquet::arrow::FileReaderBuilder builder;
    lockstep::require_ok(builder.Open(file_, properties));
    builder.properties(forms);
    lockstep::require_ok(builder.Build(&parquet_));
    rows_ = parquet_->parquet_reader()->metadata()->num_rows();
    std::shared_ptr<arrow::Schema> schema;
    lockstep::require_ok(parquet_->GetSchema(&schema));
    stream_ = value_of(parquet_->GetRecordBatchReader());
  }

  void open_arrow(const std::string& path) {
    char magic[6] = {};
    const auto got = value_of(file_->ReadAt(0, sizeof magic, magic));
    if (got == sizeof magic && std::memcmp(magic, "ARROW1", sizeof magic) == 0) {
      batches_ = value_of(arrow::ipc::RecordBatchFileReader::Open(file_));
    } else {
      file_ = open_to_read(path);
      stream_ = value_of(arrow::ipc::RecordBatchStreamReader::Open(file_));
    }
  }

  bool next_batch() {
    if (batch_) begun_ += batch_->num_rows();
    batch_.reset();
    row_ = 0;
    if (batches_) {
      if (next_ < batches_->num_record_batches()) batch_ = value_of(batches_->ReadRecordBatch(next_++));
    } else {
      lockstep::require_ok(stream_->ReadNext(&batch_));
    }
    if (!batch_) {
      ended_ = true;
      return false;
    }
    lockstep::require_ok(batch_->ValidateFull());  // lengths and offsets that a damaged file gives
    return true;
  }

  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  std::uint64_t bytes_ = 0;
  std::unique_ptr<parquet::arrow::FileReader> parquet_;
  std::shared_ptr<arrow::RecordBatchReader> stream_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> batches_;
  int next_ = 0;                       // of these
  std::int64_t rows_ = 0, begun_ = 0;  // of Parquet
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::int64_t row_ = 0;
  bool ended_ = false;
  std::string lines_;
  std::size_t given_ = 0;
};

void* open(const char* path, bool parquet, char* problem, std::size_t room) {
  try {
    return new Table(path, parquet);
  } catch (const std::exception& error) {
    copy_error_message(problem, room, error.what());
    return nullptr;
  }
}

std::int64_t read(void* table, char* out, std::size_t bytes, char* problem, std::size_t room) {
  try {
    return static_cast<Table*>(table)->read(out, bytes);
  } catch (const std::exception& error) {
    copy_error_message(problem, room, error.what());
    return -1;
  }
}

std::uint64_t consumed(const void* table) { return static_cast<const Table*>(table)->consumed(); }
void close(void* table) { delete static_cast<Table*>(table); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const lockstep::TablePlugin* lockstep_tables() {
  static const lockstep::TablePlugin plugin{lockstep::TablePlugin::version_here, open, read, consumed, close};
  return &plugin;
}
