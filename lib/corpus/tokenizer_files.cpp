#include "corpus/tokenizer_files.hpp"

#include "base/json.hpp"

namespace lockstep {

std::string hf_tokenizer_json(const Json& added_tokens, const Json& pre_tokenizer, const Json& decoder,
                              const Json& model) {
  const Json document{{"version", "1.0"},
                      {"truncation", nullptr},
                      {"padding", nullptr},
                      {"added_tokens", added_tokens},
                      {"normalizer", nullptr},
                      {"pre_tokenizer", pre_tokenizer},
                      {"post_processor", nullptr},
                      {"decoder", decoder},
                      {"model", model}};
  return to_text(document, 1) + "\n";
}

Json added_token_json(std::int32_t id, const std::string& content) {
  return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
              {"rstrip", false}, {"normalized", false}, {"special", true}};
}

std::string tokenizer_config_json(const std::string& tokenizer_class, const std::string& end_name) {
  Json document{{"tokenizer_class", tokenizer_class}, {"clean_up_tokenization_spaces", false}};
  if (!end_name.empty()) document["eos_token"] = end_name;
  return to_text(document, 2) + "\n";
}

}  // namespace lockstep
