#include "exchange/model_folder.hpp"

#include "base/error.hpp"
#include "base/json.hpp"
#include "unit/exchange/folder.hpp"

#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(model_folder)

namespace {

const std::vector<TensorDescription> expected{{"transformer.wte.weight", {4, 2}, DType::f32},
                                              {"transformer.h.0.ln_1.weight", {2}, DType::f32}};

std::string error_of(const Path& path, const std::vector<TensorDescription>& wanted = expected) {
  try {
    open_model_weights(path, wanted);
  } catch (const Error& error) {
    BOOST_CHECK(error.code() == ExitCode::input);
    return error.what() + ("|" + error.hint());
  }
  return "no error";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_FIXTURE_TEST_CASE(names_without_the_prefix_and_old_buffers_are_understood, Folder) {
  write_counting(path, {{"wte.weight", {4, 2}, DType::f32},
                        {"h.0.ln_1.weight", {2}, DType::f32},
                        {"h.0.attn.bias", {1, 1, 3, 3}, DType::f32},
                        {"h.0.attn.masked_bias", {}, DType::f32},
                        {"lm_head.weight", {4, 2}, DType::f32}});
  const auto source = open_model_weights(path, expected);
  BOOST_TEST((source->list() == expected));
  BOOST_TEST(read_all(*source, "transformer.h.0.ln_1.weight") == counting(2, 100), boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(names_with_the_prefix_are_their_own, Folder) {
  write_counting(path, expected);
  const auto source = open_model_weights(path, expected);
  BOOST_TEST(read_all(*source, "transformer.wte.weight") == counting(8, 0), boost::test_tools::per_element());
  BOOST_CHECK_THROW(source->read("wte.weight", whole({4, 2}), {}), Error);
}

BOOST_FIXTURE_TEST_CASE(all_mismatches_are_reported_at_once, Folder) {
  write_counting(path, {{"wte.weight", {4, 3}, DType::f32}, {"score.weight", {1}, DType::f32}});
  const std::string error = error_of(path);
  BOOST_TEST(has(error, "1 missing: transformer.h.0.ln_1.weight"));
  BOOST_TEST(has(error, "1 unexpected: score.weight"));
  BOOST_TEST(has(error, "transformer.wte.weight is (4, 3), not (4, 2)"));
}

namespace {

/// What opening the weights says: warnings, then notes.
std::string said_of(const Path& path) {
  Remarks remarks;
  open_model_weights(path, expected, remarks);
  std::string said;
  for (const std::string& warning : remarks.warnings) said += "warning " + warning + "\n";
  for (const std::string& note : remarks.notes) said += "note " + note + "\n";
  return said;
}

const std::vector<TensorDescription> bare{{"wte.weight", {4, 2}, DType::f32}, {"h.0.ln_1.weight", {2}, DType::f32}};

std::vector<TensorDescription> with(std::vector<TensorDescription> tensors,
                                    const std::vector<TensorDescription>& more) {
  tensors.insert(tensors.end(), more.begin(), more.end());
  return tensors;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(every_tensor_that_is_not_read_is_named, Folder) {
  write_counting(path, bare);
  BOOST_TEST(said_of(path) == "");
  std::filesystem::remove(path / "model.safetensors");
  write_counting(path, with(bare, {{"v_head.summary.weight", {1, 2}, DType::f32},
                                   {"score.weight", {3, 2}, DType::f32},
                                   {"h.0.attn.bias", {1, 1, 3, 3}, DType::f32},
                                   {"h.0.attn.rotary_emb.inv_freq", {1}, DType::f32}}));
  BOOST_TEST(said_of(path) ==
             "warning " + path.string() +
                 ": ignored 2 tensors, since the model has no such module: v_head.summary.weight, score.weight\n"
                 "note " +
                 path.string() +
                 ": ignored 2 tensors of masks and rotary positions, which are computed: h.0.attn.bias, "
                 "h.0.attn.rotary_emb.inv_freq\n");
}

BOOST_FIXTURE_TEST_CASE(a_tensor_in_a_module_of_the_model_is_not_left_out, Folder) {
  for (const TensorDescription& one : std::vector<TensorDescription>{{"h.0.attn.bias", {6}, DType::f32},
                                                                     {"transformer.h.1.ln_1.weight", {2}, DType::f32},
                                                                     {"lm_head.bias", {4}, DType::f32},
                                                                     {"wte.bias", {4}, DType::f32}}) {
    write_counting(path, with(bare, {one}));
    BOOST_TEST(has(error_of(path), "1 unexpected: " + one.name));
    std::filesystem::remove(path / "model.safetensors");
  }
}

BOOST_FIXTURE_TEST_CASE(a_prefix_of_wrappers_that_all_names_have_is_left_out_with_a_note, Folder) {
  for (const std::string wrapper : {"_orig_mod.", "module.", "module._orig_mod.", "model."}) {
    std::vector<TensorDescription> tensors = expected;
    for (TensorDescription& tensor : tensors) tensor.name = wrapper + tensor.name;
    write_counting(path, tensors);
    BOOST_TEST(said_of(path) ==
               fmt::format("note {}: removed the prefix '{}' from all tensor names\n", path.string(), wrapper));
    BOOST_TEST(read_all(*open_model_weights(path, expected), "transformer.h.0.ln_1.weight") == counting(2, 100),
               boost::test_tools::per_element());
    std::filesystem::remove(path / "model.safetensors");
    tensors.front().name = expected.front().name;  // not all of them
    write_counting(path, tensors);
    if (wrapper != "model.") BOOST_TEST(has(error_of(path), "1 missing: transformer.h.0.ln_1.weight"));
    std::filesystem::remove(path / "model.safetensors");
  }
}

BOOST_FIXTURE_TEST_CASE(a_tied_head_that_is_alone_is_the_embedding_too, Folder) {
  write_counting(path, {{"lm_head.weight", {4, 2}, DType::f32}, {"h.0.ln_1.weight", {2}, DType::f32}});
  BOOST_TEST(read_all(*open_model_weights(path, expected), "transformer.wte.weight") == counting(8, 0),
             boost::test_tools::per_element());
  auto untied = expected;
  untied.push_back({"lm_head.weight", {4, 2}, DType::f32});
  BOOST_TEST(has(error_of(path, untied), "1 missing: transformer.wte.weight"));
}

BOOST_FIXTURE_TEST_CASE(a_tied_head_is_its_own_where_one_value_differs, Folder) {
  const ModelConfig tied = parse_hf_config(
      R"({"model_type":"gpt2","vocab_size":700,"n_embd":600,"n_layer":1,"n_head":2,"n_positions":8})", "c");
  const auto head_with = [&](std::size_t changed, float value, bool half) {
    auto embedding = counting(700 * 600, 0), head = embedding;
    std::vector<std::uint16_t> narrow;
    for (float& element : embedding) element = std::fmod(element, 256.0f);
    head = embedding;
    if (changed < head.size()) head[changed] = value;
    for (const float element : head)
      narrow.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(element) >> 16));
    std::filesystem::remove(path / "model.safetensors");
    SafetensorsWriter writer(path, {{"wte.weight", {700, 600}, DType::f32},
                                    {"lm_head.weight", {700, 600}, half ? DType::bf16 : DType::f32}});
    writer.write("wte.weight", whole({700, 600}), std::as_bytes(std::span(embedding)));
    writer.write("lm_head.weight", whole({700, 600}),
                 half ? std::as_bytes(std::span(narrow)) : std::as_bytes(std::span(head)));
    writer.finish();
    return head_in(path, tied);
  };
  constexpr std::size_t none = 700 * 600;
  BOOST_TEST((head_with(none, 0, false) == Head::as_configured));
  BOOST_TEST((head_with(none, 0, true) == Head::as_configured));  // whole numbers below 256 are exact in bf16
  BOOST_TEST((head_with(0, 1, false) == Head::own));
  BOOST_TEST((head_with(none - 1, 1, false) == Head::own));
  BOOST_TEST((head_with(none - 1, 1, true) == Head::own));
  BOOST_TEST((head_with(7, NAN, false) == Head::own));
  BOOST_TEST((head_in(path, with_head(tied, Head::own)) == Head::as_configured));  // an untied one is not compared
  BOOST_TEST(!with_head(tied, Head::own).tied_head);
  BOOST_TEST(to_text(*with_head(tied, Head::own).original).ends_with(R"("tie_word_embeddings":false})"));
}

BOOST_FIXTURE_TEST_CASE(an_untied_head_that_is_absent_hints_at_tying, Folder) {
  write_counting(path, {{"wte.weight", {4, 2}, DType::f32}, {"h.0.ln_1.weight", {2}, DType::f32}});
  auto wanted = expected;
  wanted.push_back({"lm_head.weight", {4, 2}, DType::f32});
  BOOST_TEST(has(error_of(path, wanted), "|set tie_word_embeddings to true"));
}

BOOST_FIXTURE_TEST_CASE(weights_of_every_type_read_as_fp32, Folder) {
  const std::vector<TensorDescription> tensors{
      {"h", {2}, DType::f16}, {"b", {2}, DType::bf16}, {"d", {2}, DType::f64}, {"i", {1}, DType::i32}};
  const std::vector<std::uint16_t> h{0x3e00, 0x8001};  // 1.5, -2^-24
  const std::vector<std::uint16_t> b{0xc040, 0x3f80};  // -3, 1
  const std::vector<double> d{0.25, 1e-3};
  const std::int32_t i = 5;
  SafetensorsWriter writer(path, tensors);
  writer.write("h", whole({2}), std::as_bytes(std::span(h)));
  writer.write("b", whole({2}), std::as_bytes(std::span(b)));
  writer.write("d", whole({2}), std::as_bytes(std::span(d)));
  writer.write("i", whole({1}), std::as_bytes(std::span(&i, 1)));
  writer.finish();
  const auto source = open_safetensors(path);
  const auto read = [&](std::size_t number) {
    std::vector<float> values(2);
    read_as_float(*source, tensors[number], whole({2}), values);
    return values;
  };
  BOOST_TEST(read(0) == (std::vector<float>{1.5f, -0x1p-24f}), boost::test_tools::per_element());
  BOOST_TEST(read(1) == (std::vector<float>{-3, 1}), boost::test_tools::per_element());
  BOOST_TEST(read(2) == (std::vector<float>{0.25f, 1e-3f}), boost::test_tools::per_element());
  std::vector<float> one(1);
  BOOST_CHECK_EXCEPTION(read_as_float(*source, tensors[3], whole({1}), one), Error,
                        [](const Error& error) { return has(error.what(), "'i' has the type int32"); });
}

BOOST_FIXTURE_TEST_CASE(the_config_of_a_folder_is_its_config_json, Folder) {
  publish_file(path / "config.json",
               R"({"model_type":"gpt2","vocab_size":9,"n_embd":4,"n_layer":1,"n_head":2,"n_positions":8})");
  BOOST_TEST(read_hf_config(path).vocabulary == 9);
  BOOST_TEST(read_hf_config(path / "config.json").vocabulary == 9);
  BOOST_CHECK_EXCEPTION(read_hf_config(path / "absent"), Error,
                        [](const Error& error) { return error.code() == ExitCode::input; });
}

BOOST_AUTO_TEST_SUITE_END()
