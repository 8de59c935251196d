#include "exchange/model_folder.hpp"

#include "base/error.hpp"
#include "unit/exchange/folder.hpp"

#include <boost/test/unit_test.hpp>

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
                        [](const Error& error) { return has(error.what(), "'i' has type int32"); });
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
