#include "base/error.hpp"
#include "harness/temporary_folder.hpp"
#include "made_bpe.hpp"
#include "tokenizer/tokenizers.hpp"

#include <boost/test/unit_test.hpp>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(tokenizers)

namespace {

using Ids = std::vector<std::int32_t>;

void write_json(const Path& folder, const Json& document) {
  make_folder(folder);
  publish_file(folder / "tokenizer.json", to_text(document));
}

std::string random_text(std::mt19937& random, const std::vector<std::string>& parts, int length) {
  std::string text;
  for (int i = 0; i < length; ++i) text += parts[random() % parts.size()];
  return text;
}

const std::vector<std::string> oddities = {"a", "b", "ab", " ",      "  ",     "\n",     "\t",     "'s", "'",   ".",
                                           "1", "é", "日", "\u00A0", "\u2003", "\u3000", "\u200B", "…",  "\r\n"};

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_are_ids_and_the_end_of_text_is_256) {
  const auto tokenizer = bytes_tokenizer();
  BOOST_TEST((tokenizer->encode("aé") == Ids{97, 0xC3, 0xA9}));
  BOOST_TEST(tokenizer->vocabulary() == 257);
  BOOST_TEST(tokenizer->end_of_text().value() == 256);
  BOOST_TEST(tokenizer->decode(Ids{97, 256, 0xC3, 0xA9}) == "a<|endoftext|>é");
}

BOOST_AUTO_TEST_CASE(characters_are_numbered_in_order_and_others_are_refused_by_name) {
  const auto tokenizer = chars_tokenizer({U'\n', U'a', U'é', U'日', U'𝄞'}, "");
  BOOST_TEST((tokenizer->encode("日a\né𝄞") == Ids{3, 1, 0, 2, 4}));
  BOOST_TEST(tokenizer->decode(Ids{3, 1, 0, 2, 4}) == "日a\né𝄞");
  BOOST_TEST(tokenizer->vocabulary() == 5);
  BOOST_TEST(!tokenizer->end_of_text().has_value());
  BOOST_CHECK_EXCEPTION(tokenizer->encode("aß"), Error, [](const Error& error) {
    return error.code() == ExitCode::input && std::string(error.what()).starts_with("cannot tokenize 'ß' (U+00DF)");
  });
  const auto joining = chars_tokenizer({U'a', U'b'}, "<end>");
  BOOST_TEST(joining->vocabulary() == 3);
  BOOST_TEST(joining->end_of_text().value() == 2);
  BOOST_TEST(joining->decode(Ids{0, 2, 1}) == "a<end>b");
}

BOOST_AUTO_TEST_CASE(ids_outside_the_vocabulary_and_invalid_text_are_refused) {
  const auto tokenizer = bytes_tokenizer();
  for (const std::int32_t id : {-1, 257}) BOOST_CHECK_THROW(tokenizer->decode(Ids{id}), Error);
  BOOST_CHECK_EXCEPTION(tokenizer->encode("ab\xFF"), Error, [](const Error& error) {
    return error.code() == ExitCode::input &&
           std::string(error.what()) == "cannot tokenize text: byte 2 is not valid UTF-8";
  });
}

BOOST_FIXTURE_TEST_CASE(merges_of_short_and_long_pieces_follow_the_definition, TemporaryFolder) {
  for (unsigned seed = 0; seed < 4; ++seed) {
    const test::MadeBpe bpe("abc", 60, seed);
    const Path folder = path / std::to_string(seed);
    write_json(folder, bpe.tokenizer_json(false));  // the whole text is one piece
    const auto tokenizer = file_tokenizer(folder);
    const auto encoder = tokenizer->encoder();
    std::mt19937 random(seed);
    for (int round = 0; round < 300; ++round) {
      const std::string text = random_text(random, {"a", "b", "c", "ab", "cc"}, 1 + static_cast<int>(random() % 200));
      Ids ids;
      encoder->encode(text, ids);
      BOOST_REQUIRE(ids == bpe.ids_of_piece(text));
      BOOST_REQUIRE_EQUAL(tokenizer->decode(ids), text);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_text_cut_at_its_last_cut_has_the_same_ids_in_parts_whatever_stands_around_it,
                        TemporaryFolder) {
  write_json(path / "bpe", test::MadeBpe("ab .'s1\n", 80, 1).tokenizer_json(true));
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(file_tokenizer(path / "bpe"));
  all.push_back(bytes_tokenizer());
  std::mt19937 random(7);
  for (const auto& tokenizer : all) {
    int cuts = 0;
    for (int round = 0; round < 3000; ++round) {
      const std::string text = random_text(random, oddities, 12);
      const std::size_t cut = tokenizer->last_cut(text);
      BOOST_REQUIRE_LE(cut, text.size());
      if (cut == 0) continue;
      ++cuts;
      const std::string before = random_text(random, oddities, 6);
      const std::string whole = before + text + random_text(random, oddities, 6);
      Ids parts = tokenizer->encode(whole.substr(0, before.size() + cut));
      const Ids rest = tokenizer->encode(whole.substr(before.size() + cut));
      parts.insert(parts.end(), rest.begin(), rest.end());
      BOOST_REQUIRE(parts == tokenizer->encode(whole));
    }
    BOOST_TEST(cuts > 1000);
  }
}

BOOST_AUTO_TEST_CASE(a_special_token_is_never_cut_and_its_text_is_read_as_asked) {
  const auto special = bytes_tokenizer("<ee>");
  const auto text = bytes_tokenizer("<ee>", SpecialTokens::text);
  BOOST_TEST((special->encode("<e<ee>>") == Ids{'<', 'e', 256, '>'}));
  BOOST_TEST((text->encode("<ee>") == Ids{'<', 'e', 'e', '>'}));
  BOOST_TEST((special->hash() != text->hash()));
  const std::string whole = "a<ee><<ee><e<ee>e><ee";
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    const std::size_t cut = special->last_cut(whole.substr(0, size));
    BOOST_TEST(cut + 3 >= size);
    Ids parts = special->encode(whole.substr(0, cut));
    const Ids rest = special->encode(whole.substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    BOOST_TEST((parts == special->encode(whole)));
  }
  const auto twice = bytes_tokenizer("abab");  // where it is found depends on what stands before
  const std::string repeated = "xabababababx";
  for (std::size_t begin = 0; begin < repeated.size(); ++begin) {
    for (std::size_t size = 0; begin + size <= repeated.size(); ++size) {
      const std::size_t cut = begin + twice->last_cut(repeated.substr(begin, size));
      if (cut == begin) continue;
      Ids parts = twice->encode(repeated.substr(0, cut));
      const Ids rest = twice->encode(repeated.substr(cut));
      parts.insert(parts.end(), rest.begin(), rest.end());
      BOOST_TEST((parts == twice->encode(repeated)));
    }
  }
  const auto chars = chars_tokenizer({U'<', U'a', U'é'}, "é<a>", SpecialTokens::special);
  BOOST_TEST((chars->encode("aé<") == Ids{1, 2, 0}));
  BOOST_TEST(chars->last_cut("aé<") == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_tokenizer_whose_pieces_or_added_tokens_span_spaces_has_no_cut, TemporaryFolder) {
  const test::MadeBpe bpe("ab ", 20, 1);
  write_json(path / "whole", bpe.tokenizer_json(false));
  BOOST_TEST(file_tokenizer(path / "whole")->last_cut("a b a b") == 0u);
  Json spanning = bpe.tokenizer_json(true);
  spanning["added_tokens"] = Json::array({Json{{"id", 276}, {"content", "a b"}}});
  write_json(path / "spanning", spanning);
  BOOST_TEST(file_tokenizer(path / "spanning")->last_cut("a b a b") == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_saved_tokenizer_comes_back_with_equal_ids_and_hash, TemporaryFolder) {
  write_json(path / "bpe", test::MadeBpe("ab .", 40, 1).tokenizer_json(true));
  std::vector<std::unique_ptr<Tokenizer>> all;
  all.push_back(bytes_tokenizer());
  all.push_back(chars_tokenizer({U' ', U'"', U'\'', U'a', U'b', U'é', U'日', U'𝄞'}, ""));
  all.push_back(chars_tokenizer({U'a', U'b'}, "<end>"));
  all.push_back(file_tokenizer(path / "bpe"));
  all.push_back(file_tokenizer(path / "bpe", "a"));
  std::set<Hash128> hashes;
  for (const auto& tokenizer : all) {
    const Path folder = path / ("saved" + std::to_string(hashes.size()));
    save_tokenizer(*tokenizer, folder);
    const auto loaded = load_tokenizer(folder);
    BOOST_TEST(loaded->name() == tokenizer->name());
    BOOST_TEST(loaded->vocabulary() == tokenizer->vocabulary());
    BOOST_TEST((loaded->end_of_text() == tokenizer->end_of_text()));
    BOOST_TEST((loaded->hash() == tokenizer->hash()));
    BOOST_TEST((loaded->encode("abba") == tokenizer->encode("abba")));
    hashes.insert(tokenizer->hash());
  }
  BOOST_TEST(hashes.size() == all.size());
}

BOOST_FIXTURE_TEST_CASE(the_end_of_text_is_the_one_asked_for_else_the_configured_else_a_customary_one,
                        TemporaryFolder) {
  Json document = test::MadeBpe("ab", 5, 1).tokenizer_json(true);
  document["added_tokens"] = Json::array({Json{{"id", 261}, {"content", "</s>"}}, Json{{"id", 262}, {"content", "<e>"}},
                                          Json{{"id", 263}, {"content", "<f>"}}});
  write_json(path, document);
  BOOST_TEST(file_tokenizer(path)->end_of_text().value() == 261);
  publish_file(path / "tokenizer_config.json", R"({"eos_token": {"content": "<e>"}})");
  BOOST_TEST(file_tokenizer(path)->end_of_text().value() == 262);
  BOOST_TEST(file_tokenizer(path, "<f>")->end_of_text().value() == 263);
  BOOST_CHECK_EXCEPTION(file_tokenizer(path, "<g>"), Error, [](const Error& error) {
    return error.code() == ExitCode::usage &&
           std::string(error.what()).ends_with("the vocabulary has no end-of-text token '<g>'");
  });
}

BOOST_FIXTURE_TEST_CASE(folders_without_a_tokenizer_and_malformed_ones_are_refused_by_name, TemporaryFolder) {
  const auto refused = [&](const Path& where, const std::string& part) {
    BOOST_CHECK_EXCEPTION(make_tokenizer(where.string()), Error, [&](const Error& error) {
      return error.code() == ExitCode::input && std::string(error.what()).find(part) != std::string::npos;
    });
  };
  refused(path / "absent", "it is neither bytes nor chars, nor a file or folder, nor a model in the cache");
  make_folder(path / "empty");
  refused(path / "empty", "has no tokenizer");
  make_folder(path / "half");
  publish_file(path / "half/vocab.json", "{\"a\": 0,\n \"b\" 1}");
  publish_file(path / "half/merges.txt", "");
  refused(path / "half", "half/vocab.json: line 2");
  publish_file(path / "half/vocab.json", "{\"a\": 0, \"b\": 1, \"a\": 2}");  // the last one counts, as in Python
  BOOST_TEST((file_tokenizer(path / "half")->encode("ab") == std::vector<std::int32_t>{2, 1}));
  Json document = test::MadeBpe("ab", 5, 1).tokenizer_json(true);
  document["model"]["merges"].push_back({"a", "zz"});
  write_json(path / "merge", document);
  refused(path / "merge", "a merge uses or produces 'zz', which is not in the vocabulary");
  write_json(path / "typed",
             {{"pre_tokenizer", {{"type", "ByteLevel"}}}, {"model", {{"type", "BPE"}, {"vocab", 3}, {"merges", "x"}}}});
  refused(path / "typed", "vocab is not an object, or merges not a list");
}

BOOST_AUTO_TEST_CASE(a_marked_text_has_literal_parts_and_tells_how_many_ids_come_before_places) {
  const auto tokenizer = bytes_tokenizer("<e>", SpecialTokens::text);  // special where marked, whatever was said
  const std::string text = "a<e>b<e>cd";
  const std::vector<TextBorder> borders{{0}, {1}, {2}, {4}, {5}, {9}, {10}};
  const std::vector<TextRange> literal{{1, 4}};
  const MarkedIds all = tokenizer->encoder()->encode_marked({text, {}, borders});
  BOOST_TEST((all.ids == std::vector<std::int32_t>{'a', 256, 'b', 256, 'c', 'd'}));
  BOOST_TEST((all.borders == std::vector<std::size_t>{0, 1, 2, 2, 3, 5, 6}));  // a token begins before what it covers
  const MarkedIds some = tokenizer->encoder()->encode_marked({text, literal, borders});
  BOOST_TEST((some.ids == std::vector<std::int32_t>{'a', '<', 'e', '>', 'b', 256, 'c', 'd'}));
  BOOST_TEST((some.borders == std::vector<std::size_t>{0, 1, 2, 4, 5, 7, 8}));
  BOOST_TEST(all.apart + some.apart == 0);
}

BOOST_FIXTURE_TEST_CASE(a_token_across_a_border_stays_and_begins_before_or_there_is_none, TemporaryFolder) {
  write_json(path, test::MadeBpe("abc", 60, 3).tokenizer_json(false));
  const auto tokenizer = file_tokenizer(path);
  const auto encoder = tokenizer->encoder();
  std::mt19937 random(1);
  int across = 0;
  for (int number = 0; number < 100; ++number) {
    const std::string text = random_text(random, {"a", "b", "c"}, 20);
    const std::vector<std::int32_t> whole = tokenizer->encode(text);
    std::vector<std::size_t> begins;  // of the tokens
    for (std::size_t at = 0; const std::int32_t id : whole) {
      begins.push_back(at);
      at += tokenizer->decode(std::span(&id, 1)).size();
    }
    for (std::size_t at = 0; at <= text.size(); ++at) {
      const auto before = static_cast<std::size_t>(std::ranges::lower_bound(begins, at) - begins.begin());
      const std::vector<TextBorder> kept{{at, AcrossBorder::whole}}, cut{{at, AcrossBorder::apart}};
      const MarkedIds stays = encoder->encode_marked({text, {}, kept});
      BOOST_TEST((stays.ids == whole && stays.borders == std::vector{before} && stays.apart == 0));
      std::vector<std::int32_t> parts = tokenizer->encode(text.substr(0, at));
      const std::size_t head = parts.size();
      const bool is_border = std::ranges::equal(parts, std::span(whole).first(std::min(head, whole.size())));
      if (!is_border) std::ranges::copy(tokenizer->encode(text.substr(at)), std::back_inserter(parts));
      const MarkedIds apart = encoder->encode_marked({text, {}, cut});
      BOOST_TEST((apart.ids == (is_border ? whole : parts) && apart.borders == std::vector{head}));
      BOOST_TEST(apart.apart == (is_border ? 0 : 1));
      across += is_border ? 0 : 1;
    }
  }
  BOOST_TEST(across > 300);
}

BOOST_AUTO_TEST_SUITE_END()
