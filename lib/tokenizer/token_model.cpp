#include "tokenizer/token_model.hpp"

#include "base/error.hpp"

namespace lockstep {

std::unique_ptr<TokenModel> token_model(const ModelDescription& model, bool byte_level, const std::string& origin) {
  switch (model.kind) {
    case ModelKind::bpe: return bpe_model(model, byte_level, origin);
    case ModelKind::word_piece: return word_piece_model(model, origin);
    case ModelKind::word_level: return word_level_model(model, origin);
    case ModelKind::unigram: return unigram_model(model, origin);
  }
  throw Error(ExitCode::bug, "unknown ModelKind");
}

TokenIds token_ids(const ModelDescription& model, const std::string& origin) {
  TokenIds ids;
  ids.reserve(model.vocabulary.size());
  for (const auto& [token, id] : model.vocabulary) {
    if (!ids.emplace(token, id).second) fail(ExitCode::input, "{}: the vocabulary has '{}' twice", origin, token);
  }
  return ids;
}

bool append_byte_tokens(std::string_view bytes, const TokenIds& ids, std::vector<std::int32_t>& out) {
  const std::size_t before = out.size();
  for (const char byte : bytes) {
    const std::int32_t id = id_in(ids, fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
    if (id == no_token) {
      out.resize(before);
      return false;
    }
    out.push_back(id);
  }
  return true;
}

std::size_t end_of_word(std::string_view piece, std::size_t at) {
  while (piece.substr(at).starts_with(space_mark)) at += space_mark.size();
  return std::min(piece.find(space_mark, at), piece.size());
}

bool spans_words(std::string_view token) { return end_of_word(token, 0) < token.size(); }

}  // namespace lockstep
