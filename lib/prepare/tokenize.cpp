#include "prepare/tokenize.hpp"

#include "base/content_sum.hpp"
#include "base/error.hpp"
#include "comm/long_work.hpp"
#include "comm/together.hpp"
#include "prepare/deduplicate.hpp"
#include "prepare/gather_values.hpp"
#include "prepare/normal_hash.hpp"
#include "prepare/record_reader.hpp"
#include "prepare/spill_units.hpp"
#include "readers/json_lines.hpp"
#include "unicode/utf8.hpp"

#include <functional>
#include <memory>
#include <optional>
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
  std::vector<BadText> places;

  void add(const BadText& problem) {
    if (places.size() < most_places) places.push_back(problem);
  }
};

// Calls `work` on the text of a block of .txt, and `skip` if it cannot be used.
void use_text(const TextBlock& block, const std::function<void(std::string_view)>& work,
              const std::function<void(const BadText&)>& skip) {
  try {
    require_utf8(block);
    work(block.text);
  } catch (const BadText& problem) {
    skip(problem);
  } catch (const Error& problem) {  // a character that the vocabulary lacks
    if (problem.code() != ExitCode::input) throw;
    skip({block.file, std::nullopt, problem.what(), problem.hint()});
  }
}

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
    const auto skip = [&](const BadText& problem) {
      if (malformed_ == OnMalformed::stop) throw problem;
    };
    if (block.file->format == TextFormat::text) {
      use_text(block, [&](std::string_view text) { mark(text); }, skip);
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
  std::uint64_t number = 0;  // of the block in the corpus
  UnitContent content;
  TokenizedBlock block;
  std::vector<std::byte> tokens;   // packed
  std::vector<std::uint8_t> mask;  // of samples made of records
  std::vector<Fragment> fragments;
  RecordCounts records;
  std::vector<NormalHash> normals;  // of the fragments, where documents are compared
  std::int64_t empty_documents = 0;
  std::int64_t left_out = 0;  // Encoder::left_out of its texts
  Malformed malformed;
};

// A .txt document below this size has one block, with or without a byte order mark; its draw is that of its hash. A
// longer one is hashed in parts, wherever its tokenizer lets it be cut.
constexpr std::size_t short_document = BlockReader::block_bytes - 3;

std::uint64_t draw_of(const Hash128& content, std::int64_t seed) {
  return seed == 0 ? content.low : hash128(fmt::format("{} {}", seed, to_hex(content))).low;
}

// What a thread needs to encode one block after the other.
class BlockEncoder {
 public:
  BlockEncoder(const Tokenizer& tokenizer, const TokenizeSettings& settings)
      : tokenizer_(tokenizer),
        encoder_(tokenizer.encoder()),
        token_bytes_(settings.token_bytes),
        lines_(settings.text_field),
        seed_(settings.seed),
        malformed_(settings.malformed),
        deduplicate_(settings.deduplicate) {
    if (settings.records.form == RecordForm::text) return;
    reader_ = record_reader(tokenizer, settings.records, settings.messages.get());
    shape_ = sample_shape(tokenizer, settings.records);
  }

  EncodedBlock encode(TextBlock& block) {
    const std::uint64_t before = left_out();
    EncodedBlock result = encode_texts(block);
    result.left_out = static_cast<std::int64_t>(left_out() - before);
    return result;
  }

 private:
  std::uint64_t left_out() const { return reader_ ? reader_->left_out() : encoder_->left_out(); }

  EncodedBlock encode_texts(TextBlock& block) {
    EncodedBlock result;
    result.tokens.reserve(block.text.size() * static_cast<std::size_t>(token_bytes_));  // hardly ever are there more
    result.block.whole_documents = block.file->has_records();
    result.block.begins_document = block.begins_document;
    const auto skip = [&](const BadText& problem) {
      if (malformed_ == OnMalformed::stop) throw problem;
      result.malformed.add(problem);
    };
    if (result.block.whole_documents) {
      const auto skip_record = [&](const BadText& problem) {
        skip(problem);
        ++result.malformed.lines;
      };
      if (reader_) {
        encode_records(block, result, skip_record);
      } else {
        encode_lines(block, result, skip_record);
      }
      return result;
    }
    const bool whole = block.begins_document && block.text.size() < short_document;
    use_text(
        block,
        [&](std::string_view text) {
          encode_fragment(text, whole ? draw_of(hash128(text), seed_) : content_sum(text, block.offset), result);
        },
        [&](const BadText& problem) {
          skip(problem);
          result.block.malformed = true;
          result.fragments.assign(1, {});  // a block of text has one
          result.normals.assign(1, {});
        });
    return result;
  }

  void encode_lines(TextBlock& block, EncodedBlock& result, const std::function<void(const BadText&)>& skip) {
    lines_.for_each(
        block,
        [&](std::string_view text) {
          const std::size_t before = result.tokens.size();
          try {
            encode_fragment(text, draw_of(hash128(text), seed_), result);
          } catch (const Error&) {  // it may have got some way
            result.tokens.resize(before);
            result.fragments.pop_back();
            result.normals.resize(std::min(result.normals.size(), result.fragments.size()));
            throw;
          }
          if (result.fragments.back().tokens > 0) return;
          result.fragments.pop_back();
          result.normals.resize(std::min(result.normals.size(), result.fragments.size()));
          ++result.empty_documents;
        },
        skip);
  }

  // The parts of a record have its draw, so that they go into one split.
  void encode_records(TextBlock& block, EncodedBlock& result, const std::function<void(const BadText&)>& skip) {
    records_.for_each(
        block,
        [&](const simdjson::dom::object& record) {
          Sample sample = reader_->read(record);
          std::uint64_t text_bytes = sample.text_bytes;
          const std::uint64_t draw = draw_of(hash_of(sample.ids, sample.mask), seed_);
          shape_->apply(
              std::move(sample),
              [&](std::span<const std::int32_t> ids, std::span<const std::uint8_t> mask) {
                pack_tokens(ids, token_bytes_, result.tokens);
                result.mask.insert(result.mask.end(), mask.begin(), mask.end());
                result.fragments.push_back({ids.size(), std::exchange(text_bytes, 0), draw});
                if (deduplicate_ != Deduplicate::none)
                  result.normals.emplace_back(to_hex(hash_of(ids, mask)), false);  // digits are their normal form
              },
              result.records);
        },
        skip);
  }

  static Hash128 hash_of(std::span<const std::int32_t> ids, std::span<const std::uint8_t> mask) {
    StreamHash hash;
    hash.add(std::as_bytes(ids));
    hash.add(std::as_bytes(mask));
    return hash.digest();
  }

  void encode_fragment(std::string_view text, std::uint64_t draw, EncodedBlock& result) {
    Fragment& fragment = result.fragments.emplace_back(Fragment{0, text.size(), draw});
    if (deduplicate_ != Deduplicate::none) result.normals.emplace_back(text, deduplicate_ == Deduplicate::caseless);
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
  JsonRecords records_;
  std::unique_ptr<RecordReader> reader_;  // where records do not hold text
  std::optional<SampleShape> shape_;
  std::int64_t seed_;
  OnMalformed malformed_;
  Deduplicate deduplicate_;
};

/// What is known of a .txt document from some of its blocks.
struct TextParts {
  std::uint64_t blocks = 0;
  std::uint64_t text_bytes = 0;
  std::uint64_t tokens = 0;
  std::uint64_t sum = 0;  // of a short document its draw
  std::uint64_t malformed = 0;
  NormalHash normal;

  void add(const TextParts& more) {
    sum = blocks == 0 ? more.sum : more.blocks == 0 ? sum : add_content_sums(sum, more.sum);
    blocks += more.blocks;
    text_bytes += more.text_bytes;
    tokens += more.tokens;
    malformed += more.malformed;
    normal.add(more.normal);
  }
  bool left_out() const { return malformed > 0 || tokens == 0; }
  std::uint64_t draw(std::int64_t seed) const {
    if (text_bytes < short_document) return sum;
    return draw_of(hash128(fmt::format("{} {}", sum, text_bytes)), seed);
  }
};

// Places documents of a rank in their order; the one that is open at its end comes last.
constexpr std::uint64_t open_ordinal = ~std::uint64_t{0};
std::uint64_t document_ordinal(std::size_t block, std::size_t fragment) {
  return static_cast<std::uint64_t>(block) << 32 | fragment;
}

/// The .txt documents of which this rank has blocks, in order; the first and the last may have blocks elsewhere.
class TextDocuments {
 public:
  void add(std::size_t block, const TokenizedBlock& tokenized, std::span<const Fragment> fragments,
           std::span<const NormalHash> normals) {
    edges_.open = !tokenized.whole_documents;
    edges_.begins_any = edges_.begins_any || tokenized.whole_documents || tokenized.begins_document;
    if (tokenized.whole_documents) return;
    if (tokenized.begins_document || documents_.empty()) documents_.push_back({tokenized.begins_document, block, {}});
    documents_.back().parts.add({1, fragments[0].text_bytes, fragments[0].tokens, fragments[0].draw,
                                 tokenized.malformed ? std::uint64_t{1} : std::uint64_t{0},
                                 normals.empty() ? NormalHash() : normals[0]});
  }

  struct LeftOut {
    std::int64_t malformed = 0;
    std::int64_t empty = 0;
  };
  /// A document that is not left out, as it lies on this rank.
  struct Known {
    HashedDocument document;
    std::size_t first_block = 0;
    std::uint64_t blocks = 0;
    bool begins_here = false;
  };
  const std::vector<Known>& known() const { return known_; }  // once complete
  /// Completes the blocks with what is known of their whole documents; counts those of all ranks that are left out.
  /// Collective.
  LeftOut complete(Communicator& world, std::int64_t seed, std::vector<TokenizedBlock>& blocks) {
    edges_.head = documents_.empty() || documents_.front().begins_here ? TextParts{} : documents_.front().parts;
    edges_.tail = edges_.open && documents_.back().begins_here ? documents_.back().parts : TextParts{};
    const std::vector<Edges> edges = gather_values(world, edges_);
    const std::size_t rank = static_cast<std::size_t>(world.rank());
    LeftOut counts;
    for (Document& document : documents_) {
      const bool is_last = &document == &documents_.back();
      TextParts whole = document.parts;
      HashedDocument known{{}, rank, document_ordinal(document.first_block, 0)};
      if (!document.begins_here) {
        whole = begun_before(edges, rank, document.parts, known.rank);
        known.ordinal = open_ordinal;
      } else if (is_last && edges_.open) {
        whole = with_heads(edges, rank, document.parts);
        known.ordinal = open_ordinal;
      }
      known.hash = whole.normal.digest();
      if (!whole.left_out())
        known_.push_back({known, document.first_block, document.parts.blocks, document.begins_here});
      for (std::uint64_t i = 0; i < document.parts.blocks; ++i) {
        blocks[document.first_block + i].left_out = whole.left_out();
        blocks[document.first_block + i].draw = whole.draw(seed);
      }
      if (!document.begins_here || !whole.left_out()) continue;
      ++(whole.malformed > 0 ? counts.malformed : counts.empty);
    }
    return {world.all_reduce(counts.malformed, Reduce::sum), world.all_reduce(counts.empty, Reduce::sum)};
  }

 private:
  struct Document {
    bool begins_here = false;
    std::size_t first_block = 0;  // of this rank; others follow
    TextParts parts;
  };
  /// What other ranks need to know of this one.
  struct Edges {
    bool begins_any = false;  // something else begins on this rank
    bool open = false;        // its last document is one of .txt, which may go on
    TextParts head;           // of a document that begins before this rank
    TextParts tail;           // of a document that begins here, and may go on
  };

  /// A document that begins on `rank` and goes on at the heads of the next ones.
  static TextParts with_heads(const std::vector<Edges>& edges, std::size_t rank, TextParts parts) {
    while (++rank < edges.size()) {
      parts.add(edges[rank].head);
      if (edges[rank].begins_any) break;
    }
    return parts;
  }
  /// A document of which `rank` has blocks and that begins before it.
  static TextParts begun_before(const std::vector<Edges>& edges, std::size_t rank, const TextParts& parts,
                                std::uint64_t& begun_on) {
    while (rank-- > 0) {
      begun_on = rank;
      if (edges[rank].begins_any) return with_heads(edges, rank, edges[rank].tail);
    }
    return parts;
  }

  std::vector<Document> documents_;
  std::vector<Known> known_;
  Edges edges_;
};

/// Leaves out documents that are there already, among those of records and of text. Collective.
void leave_out_duplicates(Session& session, const Path& folder, std::vector<HashedDocument> documents,
                          const std::vector<std::uint64_t>& fragments, std::uint64_t all_fragments,
                          const std::vector<TextDocuments::Known>& texts, TokenizedCorpus& corpus) {
  for (const TextDocuments::Known& text : texts) documents.push_back(text.document);
  const std::vector<bool> twice = find_duplicates(session, folder, documents);
  std::int64_t count = 0;
  corpus.duplicates.resize(all_fragments);
  for (std::size_t i = 0; i < fragments.size(); ++i) {
    corpus.duplicates[fragments[i]] = twice[i];
    count += twice[i] ? 1 : 0;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!twice[fragments.size() + i]) continue;
    for (std::uint64_t block = 0; block < texts[i].blocks; ++block)
      corpus.blocks[texts[i].first_block + block].left_out = true;
    count += texts[i].begins_here ? 1 : 0;
  }
  corpus.duplicate_documents = session.world().all_reduce(count, Reduce::sum);
}

/// The first places of all ranks. Collective.
std::vector<std::string> tell_places(Session& session, const std::vector<BadText>& own) {
  Communicator& world = session.world();
  std::size_t before = 0;
  const std::vector<std::size_t> counts = gather_values(world, own.size());
  for (int rank = 0; rank < world.rank(); ++rank) before += counts[static_cast<std::size_t>(rank)];
  std::vector<std::string> places;
  long_work_together(session, "count lines", [&](const std::function<void()>& alive) {
    LineCounter lines(alive);
    for (const BadText& bad : own) {
      if (before + places.size() >= most_places) break;
      places.emplace_back(error_of(bad, lines).what());
    }
  });
  return gather_texts(world, places);
}

}  // namespace

CorpusCharacters scan_characters(const BlockPass& pass, const std::string& text_field, OnMalformed malformed) {
  std::vector<bool> seen(code_points);
  std::int64_t documents = 0;
  CorpusCharacters result;
  result.input = for_own_blocks<ScannedBlock>(
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
  for (char32_t character = 0; character < code_points; ++character) {
    if (seen[character]) result.characters.push_back(character);
  }
  result.documents = world.all_reduce(documents, Reduce::sum);
  return result;
}

namespace {

/// Puts together what a rank has tokenized, unit by unit.
class RankCorpus {
 public:
  RankCorpus(const BlockPass& pass, const TokenizeSettings& settings, std::vector<SpillUnit> units)
      : settings_(settings),
        store_(settings.units_folder, pass.files, settings.token_bytes),
        rank_(static_cast<std::uint64_t>(pass.session.world().rank())),
        units_(std::move(units)) {}

  /// A block of a unit that is made here.
  void take(EncodedBlock&& encoded) {
    while (units_[current_].range.end <= encoded.number) end_unit();
    SpillUnit& unit = units_[current_];
    if (!spill_) {
      unit.name = store_.new_name(unit.range);
      spill_ = std::make_unique<SpillWriter>(settings_.units_folder, unit.name, settings_.token_bytes);
      begin_spill(unit);
    }
    spill_->append(encoded.block, encoded.tokens, encoded.mask, encoded.fragments, encoded.normals);
    unit.blocks.push_back(encoded.block);
    unit.empty_documents += encoded.empty_documents;
    unit.malformed_lines += encoded.malformed.lines;
    unit.left_out += encoded.left_out;
    unit.records.add(encoded.records);
    unit.places.insert(unit.places.end(), encoded.malformed.places.begin(), encoded.malformed.places.end());
    if (encoded.content.content.bytes > 0) unit.contents.push_back(encoded.content);
    add_block(encoded.block, encoded.fragments, encoded.normals);
  }
  /// No block follows.
  void finish() {
    while (current_ < units_.size()) end_unit();
  }

  TokenizedCorpus corpus;  // without what all ranks know together
  TextDocuments documents;
  Malformed malformed;
  std::vector<HashedDocument> hashed;    // of records, where documents are compared
  std::vector<std::uint64_t> fragments;  // theirs
  std::uint64_t all_fragments = 0;
  std::vector<UnitContent> contents;  // of units that were there

 private:
  void begin_spill(const SpillUnit& unit) {
    first_token_ = all_tokens_;
    first_fragment_ = all_fragments;
    corpus.spill.push_back({settings_.units_folder, unit.name, first_token_, first_fragment_});
  }

  void end_unit() {
    SpillUnit& unit = units_[current_++];
    if (spill_) {
      store_.publish(unit, spill_->finish());
      spill_.reset();
    } else if (!unit.name.empty()) {
      begin_spill(unit);
      const SpilledFragments spilled = read_fragments(settings_.units_folder, unit.name);
      for (const TokenizedBlock& block : unit.blocks) {
        const auto of_block = [&](const auto& values) {
          return values.empty() ? std::span(values) : std::span(values).subspan(block.first_fragment, block.fragments);
        };
        add_block(block, of_block(spilled.fragments), of_block(spilled.normals));
      }
      contents.insert(contents.end(), unit.contents.begin(), unit.contents.end());
    }
    corpus.empty_documents += unit.empty_documents;
    corpus.left_out += unit.left_out;
    corpus.records.add(unit.records);
    malformed.lines += unit.malformed_lines;
    for (const BadText& place : unit.places) malformed.add(place);
    unit = {};
  }

  /// `block`: with its place within the spill of its unit.
  void add_block(TokenizedBlock block, std::span<const Fragment> of_block, std::span<const NormalHash> normals) {
    block.first_token += first_token_;
    block.first_fragment += first_fragment_;
    documents.add(corpus.blocks.size(), block, of_block, normals);
    for (std::size_t i = 0; block.whole_documents && i < normals.size(); ++i) {
      hashed.push_back({normals[i].digest(), rank_, document_ordinal(corpus.blocks.size(), i)});
      fragments.push_back(block.first_fragment + i);
    }
    all_tokens_ = block.first_token + block.tokens;
    all_fragments = block.first_fragment + block.fragments;
    corpus.blocks.push_back(block);
  }

  const TokenizeSettings& settings_;
  UnitStore store_;
  std::uint64_t rank_;
  std::vector<SpillUnit> units_;
  std::size_t current_ = 0;
  std::unique_ptr<SpillWriter> spill_;  // of the current unit, once it has a block
  std::uint64_t first_token_ = 0;       // of its spill
  std::uint64_t first_fragment_ = 0;
  std::uint64_t all_tokens_ = 0;
};

/// What is to be read: all but units that are there. Tells how much is. Pure.
std::vector<InputPart> parts_to_read(const BlockNumbers& numbers, const std::vector<SpillUnit>& units) {
  std::vector<InputPart> parts;
  for (std::size_t i = 0; i < units.size(); ++i) {
    InputRange range = units[i].range;
    if (!units[i].name.empty()) continue;
    for (; i + 1 < units.size() && units[i + 1].name.empty(); ++i) range.end = units[i + 1].range.end;
    const std::vector<InputPart> more = numbers.parts_in(range);
    parts.insert(parts.end(), more.begin(), more.end());
  }
  return parts;
}

}  // namespace

TokenizedCorpus tokenize(const BlockPass& given, const Tokenizer& tokenizer, const TokenizeSettings& settings) {
  Communicator& world = given.session.world();
  together(world, given.what, [&] {
    (void)BlockEncoder(tokenizer, settings);  // what cannot be done is told here, not by threads
  });
  const BlockNumbers numbers(given.files);
  std::vector<SpillUnit> units;
  long_work_together(given.session, "look for tokenized text", [&](const std::function<void()>& alive) {
    units = UnitStore(settings.units_folder, given.files, settings.token_bytes)
                .plan(numbers.range_of(parts_of_rank(given.files, world.rank(), world.size())), alive);
  });
  BlockPass pass = given;
  pass.parts = parts_to_read(numbers, units);
  RankCorpus own(pass, settings, std::move(units));
  const auto make_work = [&] {
    return [&, encoder = std::make_shared<BlockEncoder>(tokenizer, settings)](TextBlock& block) {
      const auto file = static_cast<std::size_t>(block.file - pass.files.data());
      const std::uint64_t number = numbers.number_of(file, block.offset);
      const UnitContent content{file, block.content};
      EncodedBlock encoded = encoder->encode(block);
      encoded.number = number;
      encoded.content = content;
      return encoded;
    };
  };
  const ReadInput input =
      for_own_blocks<EncodedBlock>(pass, make_work, [&](EncodedBlock&& encoded) { own.take(std::move(encoded)); });
  long_work_together(pass.session, pass.what, [&](const std::function<void()>&) { own.finish(); });
  TokenizedCorpus corpus = std::move(own.corpus);
  corpus.input = input;
  for (const UnitContent& content : gather_lists(world, own.contents))
    corpus.input.contents[content.file].add(content.content);
  const TextDocuments::LeftOut left_out = own.documents.complete(world, settings.seed, corpus.blocks);
  if (settings.deduplicate != Deduplicate::none)
    leave_out_duplicates(pass.session, settings.scratch, std::move(own.hashed), own.fragments, own.all_fragments,
                         own.documents.known(), corpus);
  corpus.empty_documents = world.all_reduce(corpus.empty_documents, Reduce::sum) + left_out.empty;
  corpus.left_out = world.all_reduce(corpus.left_out, Reduce::sum);
  corpus.malformed_documents = world.all_reduce(own.malformed.lines, Reduce::sum) + left_out.malformed;
  for (const std::vector<RecordCounts> ranks = gather_values(world, std::exchange(corpus.records, {}));
       const RecordCounts& counts : ranks)
    corpus.records.add(counts);
  if (corpus.malformed_documents > 0) corpus.malformed_places = tell_places(pass.session, own.malformed.places);
  return corpus;
}

}  // namespace lockstep
