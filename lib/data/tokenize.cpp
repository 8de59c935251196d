#include "data/tokenize.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "corpus/json_lines.hpp"
#include "corpus/utf8.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace lockstep {

namespace {

constexpr std::size_t code_points = 0x110000;
constexpr std::size_t most_places = 10;  // of malformed documents that are named

/// What was malformed in the blocks of a rank.
struct Malformed {
  std::int64_t lines = 0;  // of JSON; a document of .txt is counted when its blocks are put together
  std::vector<std::string> places;

  void add(const Error& problem) {
    if (places.size() < most_places) places.emplace_back(problem.what());
  }
};

struct ScannedBlock {
  std::vector<char32_t> characters;  // sorted
  std::int64_t documents = 0;
};

// What a thread needs to find the characters of one block after the other.
class Scanner {
 public:
  Scanner(const std::string& text_field, OnMalformed malformed) : lines_(text_field), malformed_(malformed) {}

  ScannedBlock scan(TextBlock& block) {
    ScannedBlock result;
    const auto skip = [&](const Error& problem) {
      if (malformed_ == OnMalformed::stop) throw problem;
    };
    if (block.file->format == TextFormat::text) {
      try {
        require_utf8(block);
        mark(block.text);
      } catch (const Error& problem) {
        skip(problem);
      }
      result.documents = block.begins_document ? 1 : 0;
    } else {
      lines_.for_each(
          block,
          [&](std::string_view text) {
            mark(text);
            result.documents += text.empty() ? 0 : 1;
          },
          skip);
    }
    result.characters = std::exchange(found_, {});
    for (const char32_t character : result.characters) seen_[character] = false;
    return result;
  }

 private:
  void mark(std::string_view text) {
    for (std::size_t position = 0; position < text.size();) {
      const char32_t character = next_code_point(text, position);
      if (!seen_[character]) found_.push_back(character);
      seen_[character] = true;
    }
  }

  JsonLines lines_;
  OnMalformed malformed_;
  std::vector<bool> seen_ = std::vector<bool>(code_points);
  std::vector<char32_t> found_;
};

struct EncodedBlock {
  TokenizedBlock block;
  std::vector<std::byte> tokens;  // packed
  std::vector<Fragment> fragments;
  std::int64_t empty_documents = 0;
  Malformed malformed;
};

std::uint64_t draw_of(const Hash128& content, std::int64_t seed) {
  return seed == 0 ? content.low : hash128(fmt::format("{} {}", seed, to_hex(content))).low;
}

// What a thread needs to encode one block after the other.
class BlockEncoder {
 public:
  BlockEncoder(const Tokenizer& tokenizer, const TokenizeSettings& settings, int rank)
      : tokenizer_(tokenizer),
        encoder_(tokenizer.encoder()),
        token_bytes_(settings.token_bytes),
        lines_(settings.text_field),
        seed_(settings.seed),
        malformed_(settings.malformed),
        rank_(rank) {}

  EncodedBlock encode(TextBlock& block) {
    EncodedBlock result;
    result.tokens.reserve(block.text.size() * static_cast<std::size_t>(token_bytes_));  // hardly ever are there more
    result.block = {
        block.index,        rank_, 0, 0, 0, 0, block.file->has_records(), block.begins_document,
        block.ends_document};
    const auto skip = [&](const Error& problem) {
      if (malformed_ == OnMalformed::stop) throw problem;
      result.malformed.add(problem);
    };
    if (result.block.whole_documents) {
      lines_.for_each(
          block,
          [&](std::string_view text) {
            if (text.empty()) {
              ++result.empty_documents;
            } else {
              encode_fragment(text, hash128(text), result);
            }
          },
          [&](const Error& problem) {
            skip(problem);
            ++result.malformed.lines;
          });
    } else {
      try {
        require_utf8(block);
        encode_fragment(block.text, block.document_hash, result);
      } catch (const Error& problem) {
        skip(problem);
        result.block.malformed = true;
        result.fragments.assign(1, {});  // a block of text has one
      }
    }
    return result;
  }

 private:
  void encode_fragment(std::string_view text, const Hash128& content, EncodedBlock& result) {
    Fragment& fragment = result.fragments.emplace_back(Fragment{0, text.size(), draw_of(content, seed_)});
    while (!text.empty()) {
      const std::size_t part = part_of(text);
      ids_.clear();
      encoder_->encode(text.substr(0, part), ids_);
      pack_tokens(ids_, token_bytes_, result.tokens);
      fragment.tokens += ids_.size();
      text.remove_prefix(part);
    }
  }

  // How much of `text` to encode at once: all of it if the tokenizer has to see a long text as a whole.
  std::size_t part_of(std::string_view text) const {
    for (std::size_t size = BlockReader::block_bytes; size < text.size(); size *= 2) {
      const std::string_view head = text.substr(0, size);
      if (const std::size_t cut = tokenizer_.last_cut(head.substr(0, whole_code_points(head))); cut > 0) return cut;
    }
    return text.size();
  }

  const Tokenizer& tokenizer_;
  std::unique_ptr<Encoder> encoder_;
  int token_bytes_;
  std::vector<std::int32_t> ids_;  // of the part
  JsonLines lines_;
  std::int64_t seed_;
  OnMalformed malformed_;
  int rank_;
};

// The blocks of all ranks, in order. Collective.
std::vector<TokenizedBlock> gather_blocks(Communicator& world, const std::vector<TokenizedBlock>& own) {
  const std::string bytes(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(TokenizedBlock));
  std::vector<TokenizedBlock> all;
  for (const std::string& part : world.all_gather(bytes)) {
    const std::size_t before = all.size();
    all.resize(before + part.size() / sizeof(TokenizedBlock));
    if (!part.empty()) std::memcpy(all.data() + before, part.data(), part.size());
  }
  std::ranges::sort(all, {}, &TokenizedBlock::index);
  return all;
}

/// Takes the documents of .txt files out of which a block is malformed; returns how many.
std::int64_t leave_out_malformed(std::vector<TokenizedBlock>& blocks) {
  std::int64_t count = 0;
  std::vector<TokenizedBlock> kept;
  for (std::size_t begin = 0, end = 0; begin < blocks.size(); begin = end) {
    end = begin + 1;
    while (!blocks[begin].whole_documents && !blocks[end - 1].ends_document) ++end;
    const std::span document(blocks.data() + begin, end - begin);
    if (std::ranges::any_of(document, &TokenizedBlock::malformed)) {
      ++count;
    } else {
      kept.insert(kept.end(), document.begin(), document.end());
    }
  }
  blocks = std::move(kept);
  return count;
}

/// The first places of all ranks, each with the index of its block before it. Collective.
std::vector<std::string> gather_places(Communicator& world, const Json& own) {
  std::vector<std::pair<std::int64_t, std::string>> all;
  for (const std::string& part : world.all_gather(to_text(own))) {
    for (const Json& place : parse_json(part, "places")) all.emplace_back(place[0], place[1]);
  }
  std::ranges::stable_sort(all, {}, [](const auto& place) { return place.first; });
  if (all.size() > most_places) all.resize(most_places);
  std::vector<std::string> places;
  for (auto& [index, place] : all) places.push_back(std::move(place));
  return places;
}

}  // namespace

CorpusCharacters scan_characters(const BlockPass& pass, const std::string& text_field, OnMalformed malformed) {
  std::vector<bool> seen(code_points);
  std::int64_t documents = 0;
  for_own_blocks<ScannedBlock>(
      pass,
      [&] {
        return [scanner = std::make_shared<Scanner>(text_field, malformed)](TextBlock& block) {
          return scanner->scan(block);
        };
      },
      [&](ScannedBlock&& block) {
        for (const char32_t character : block.characters) seen[character] = true;
        documents += block.documents;
      });
  std::string own;
  for (char32_t character = 0; character < code_points; ++character) {
    if (seen[character]) append_code_point(own, character);
  }
  Communicator& world = pass.session.world();
  for (const std::string& part : world.all_gather(own)) {
    for (std::size_t position = 0; position < part.size();) seen[next_code_point(part, position)] = true;
  }
  CorpusCharacters result;
  for (char32_t character = 0; character < code_points; ++character) {
    if (seen[character]) result.characters.push_back(character);
  }
  result.documents = world.all_reduce(documents, Reduce::sum);
  return result;
}

TokenizedCorpus tokenize(const BlockPass& pass, const Tokenizer& tokenizer, const TokenizeSettings& settings) {
  Communicator& world = pass.session.world();
  std::unique_ptr<SpillWriter> spill;
  together(world, pass.what,
           [&] { spill = std::make_unique<SpillWriter>(settings.spill_folder, world.rank(), settings.token_bytes); });
  std::vector<TokenizedBlock> own;
  std::int64_t empty_documents = 0;
  std::int64_t malformed_lines = 0;
  Json places = Json::array();
  const auto make_work = [&] {
    return [encoder = std::make_shared<BlockEncoder>(tokenizer, settings, world.rank())](TextBlock& block) {
      return encoder->encode(block);
    };
  };
  std::vector<std::string> empty_files = for_own_blocks<EncodedBlock>(pass, make_work, [&](EncodedBlock&& encoded) {
    spill->append(encoded.block, encoded.tokens, encoded.fragments);
    own.push_back(encoded.block);
    empty_documents += encoded.empty_documents;
    malformed_lines += encoded.malformed.lines;
    for (const std::string& place : encoded.malformed.places) {
      if (places.size() < most_places) places.push_back({encoded.block.index, place});
    }
  });
  together(world, pass.what, [&] { spill->finish(); });
  TokenizedCorpus corpus;
  corpus.blocks = gather_blocks(world, own);
  corpus.empty_documents = world.all_reduce(empty_documents, Reduce::sum);
  corpus.malformed_documents = world.all_reduce(malformed_lines, Reduce::sum) + leave_out_malformed(corpus.blocks);
  corpus.malformed_places = gather_places(world, places);
  corpus.empty_files = std::move(empty_files);
  return corpus;
}

}  // namespace lockstep
