#include "tokenizer/sentencepiece.hpp"

#include "base/error.hpp"
#include "base/text.hpp"
#include "unicode/utf8.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_set>

namespace lockstep {

namespace {

constexpr std::size_t longest_piece = 4096;  // bytes; each cut of a piece is looked up

/// The fields of one message of protocol buffers, one after the other.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& origin) : rest_(bytes), origin_(origin) {}

  /// Goes on to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field_ = key >> 3;
    switch (key & 7) {
      case 0: number_ = varint(); break;
      case 1: take(8); break;
      case 2: bytes_ = take(varint()); break;
      case 5: bytes_ = take(4); break;
      default: malformed();
    }
    wire_ = key & 7;
    if (field_ == 0) malformed();
    return true;
  }
  std::uint64_t field() const { return field_; }
  std::uint64_t number() const { return require(0), number_; }
  bool flag() const { return number() != 0; }
  std::string_view bytes() const { return require(2), bytes_; }
  float real() const {
    require(5);
    std::uint32_t bits = 0;
    for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(bytes_[i]);
    return std::bit_cast<float>(bits);
  }

 private:
  [[noreturn]] void malformed() const { fail(ExitCode::input, "{}: not a sentencepiece model, or damaged", origin_); }
  void require(std::uint64_t wire) const {
    if (wire_ != wire) malformed();
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    malformed();
  }
  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) malformed();
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
  const std::string& origin_;
  std::uint64_t field_ = 0;
  std::uint64_t wire_ = 0;
  std::uint64_t number_ = 0;
  std::string_view bytes_;
};

[[noreturn]] void refuse_model(const std::string& origin, const std::string& what) {
  throw Error(ExitCode::usage, fmt::format("{}: {} is not supported", origin, what),
              "prepare-data(1) lists the supported ones");
}

SentencePiece parse_piece(std::string_view bytes, const std::string& origin) {
  SentencePiece piece;
  for (MessageReader reader(bytes, origin); reader.next();) {
    if (reader.field() == 1) piece.text = reader.bytes();
    if (reader.field() == 2) piece.score = reader.real();
    if (reader.field() == 3) {
      if (reader.number() < 1 || reader.number() > 6)
        refuse_model(origin, fmt::format("a piece of type {}", reader.number()));
      piece.type = static_cast<PieceType>(reader.number());
    }
  }
  if (piece.text.size() > longest_piece)
    fail(ExitCode::input, "{}: a piece has {} bytes, more than {}", origin, piece.text.size(), longest_piece);
  if (piece.text.empty() || first_invalid_utf8(piece.text) || !std::isfinite(piece.score))
    fail(ExitCode::input, "{}: a piece is empty, not UTF-8, or has no finite score", origin);
  return piece;
}

void parse_trainer(std::string_view bytes, const std::string& origin, SentencePieceModel& model) {
  for (MessageReader reader(bytes, origin); reader.next();) {
    switch (reader.field()) {
      case 3:
        if (reader.number() != 1 && reader.number() != 2)
          refuse_model(origin, reader.number() == 3   ? "a word model"
                               : reader.number() == 4 ? "a character model"
                                                      : fmt::format("a model of type {}", reader.number()));
        model.kind = static_cast<SentencePieceModel::Kind>(reader.number());
        break;
      case 24: model.space_is_suffix = reader.flag(); break;
      case 35: model.byte_fallback = reader.flag(); break;
      case 42:
        if (reader.number() < std::uint64_t{1} << 31) model.end_id = static_cast<std::int32_t>(reader.number());
        break;
      case 44: model.unknown_surface = reader.bytes(); break;
      default: break;  // how it was trained
    }
  }
}

void parse_normalizer(std::string_view bytes, const std::string& origin, SentencePieceModel& model) {
  for (MessageReader reader(bytes, origin); reader.next();) {
    switch (reader.field()) {
      case 2: model.charsmap = reader.bytes(); break;
      case 3: model.add_dummy_prefix = reader.flag(); break;
      case 4: model.remove_extra_whitespaces = reader.flag(); break;
      case 5: model.escape_whitespaces = reader.flag(); break;
      default: break;  // names and sources of the map
    }
  }
}

void check_pieces(SentencePieceModel& model, const std::string& origin) {
  if (model.pieces.empty()) fail(ExitCode::input, "{}: the model has no pieces", origin);
  std::unordered_set<std::string_view> texts;
  int unknown = 0;
  int bytes = 0;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (!texts.insert(piece.text).second) fail(ExitCode::input, "{}: the piece '{}' appears twice", origin, piece.text);
    if (piece.type == PieceType::unknown) model.unknown_id = static_cast<std::int32_t>(id);
    unknown += piece.type == PieceType::unknown ? 1 : 0;
    bytes += piece.type == PieceType::byte ? 1 : 0;
    if (piece.type == PieceType::unused && model.kind == SentencePieceModel::Kind::bpe)
      refuse_model(origin, fmt::format("the unused piece '{}' of a BPE model", piece.text));
    std::size_t first = 0;
    next_code_point(piece.text, first);
    if (piece.type == PieceType::control && first == piece.text.size())
      refuse_model(origin, fmt::format("the control piece '{}' of one character", piece.text));
  }
  if (unknown != 1)
    fail(ExitCode::input, "{}: {} pieces have the type unknown instead of exactly one", origin, unknown);
  for (int byte = 0; model.byte_fallback && byte < 256; ++byte) {
    if (!texts.contains(fmt::format("<0x{:02X}>", byte)) || bytes != 256)
      fail(ExitCode::input,
           "{}: the model uses byte fallback, but has {} pieces of type byte instead of one for each byte", origin,
           bytes);
  }
  if (model.end_id && (*model.end_id < 0 || static_cast<std::size_t>(*model.end_id) >= model.pieces.size() ||
                       model.pieces[static_cast<std::size_t>(*model.end_id)].type != PieceType::control))
    model.end_id.reset();
}

}  // namespace

bool is_sentencepiece(std::string_view bytes) {
  // A first piece, whose text is its first field; "\n{\n" begins a JSON file.
  return bytes.size() > 3 && bytes[0] == '\n' && bytes[1] != '{' && bytes[2] == '\n' &&
         static_cast<unsigned char>(bytes[1]) < 0x80;
}

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& origin) {
  SentencePieceModel model;
  model.end_id = 2;  // where the trainer's part does not say
  for (MessageReader reader(bytes, origin); reader.next();) {
    switch (reader.field()) {
      case 1: model.pieces.push_back(parse_piece(reader.bytes(), origin)); break;
      case 2: parse_trainer(reader.bytes(), origin, model); break;
      case 3: parse_normalizer(reader.bytes(), origin, model); break;
      case 5: {
        SentencePieceModel back;
        parse_normalizer(reader.bytes(), origin, back);
        if (!back.charsmap.empty()) refuse_model(origin, "a character map for decoding (denormalizer)");
        break;
      }
      default: break;  // tests of the model's own
    }
  }
  check_pieces(model, origin);
  return model;
}

}  // namespace lockstep
