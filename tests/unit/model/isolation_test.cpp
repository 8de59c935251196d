#include "model/model.hpp"
#include "small_models.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(isolation)

using namespace lockstep;

namespace {

/// Llama whose first layer attends to 4 tokens at most.
Architecture small_mistral() {
  return describe(
      parse_hf_config(R"({"model_type": "mistral", "vocab_size": 29, "hidden_size": 16, "intermediate_size": 24,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": false, "sliding_window": 4})",
                      "mistral.json"));
}

const std::vector<std::int64_t> lengths{5, 1, 9, 3, 2};  // of documents in a row; the last is padding

/// Documents that share a row; `draw` says which tokens they have.
Batch shared_row(const std::vector<int>& draws) {
  Batch batch;
  batch.samples = 1;
  for (std::size_t document = 0; document < lengths.size(); ++document) {
    batch.documents.push_back(batch.length);
    for (std::int64_t t = 0; t < lengths[document]; ++t) {
      const bool padding = document + 1 == lengths.size();
      batch.tokens.push_back(padding ? 0 : static_cast<std::int32_t>((draws[document] * 7 + t * t + 3 * t) % 23));
      batch.labels.push_back(padding ? ignored_label : static_cast<std::int32_t>((t * 5 + draws[document]) % 23));
      batch.positions.push_back(static_cast<std::int32_t>(t));
      batch.valid_tokens += padding ? 0 : 1;
    }
    batch.length += lengths[document];
  }
  batch.documents.push_back(batch.length);
  batch.numbers = {0};
  return batch;
}

/// One of them by itself.
Batch alone(const Batch& row, std::size_t document) {
  const auto begin = row.documents[document], end = row.documents[document + 1];
  const auto part = [&](const std::vector<std::int32_t>& values) {
    return std::vector<std::int32_t>(values.begin() + begin, values.begin() + end);
  };
  return {.samples = 1,
          .length = end - begin,
          .tokens = part(row.tokens),
          .labels = part(row.labels),
          .positions = part(row.positions),
          .documents = {0, end - begin},
          .valid_tokens = end - begin,
          .numbers = {0}};
}

at::Tensor logits_of(const Model& model, const Batch& batch) { return model.logits(to_tensors(batch, model.config())); }

at::Tensor rows_of_document(const at::Tensor& logits, const Batch& row, std::size_t document) {
  return logits.slice(0, row.documents[document], row.documents[document + 1]);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_document_that_shares_a_row_has_the_logits_that_it_has_alone) {
  for (const Architecture& architecture :
       {small_gpt2(), small_llama(), small_mistral(), small_qwen3_moe(), small_qwen2_moe()}) {
    Model model(architecture, Precision::fp64);
    model.initialise(4);
    const Batch row = shared_row({1, 2, 3, 4, 0});
    const at::Tensor logits = logits_of(model, row);
    for (std::size_t document = 0; document + 1 < lengths.size(); ++document) {
      const at::Tensor together = rows_of_document(logits, row, document);
      BOOST_TEST(together.sub(logits_of(model, alone(row, document))).abs().max().item<double>() < 1e-12,
                 name_of(model.config().family) << ", document " << document);
    }
    Batch joined = row;
    joined.documents = {0, row.length};
    BOOST_TEST(rows_of_document(logits_of(model, joined), row, 2)
                   .sub(rows_of_document(logits, row, 2))
                   .abs()
                   .max()
                   .item<double>() > 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(other_tokens_of_a_neighbour_change_no_bit_of_a_document) {
  for (const Architecture& architecture : {small_gpt2(), small_llama(), small_mistral()}) {
    for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
      Model model(architecture, precision);
      model.initialise(4);
      const std::vector<int> draws{1, 2, 3, 4, 0};
      const Batch row = shared_row(draws);
      const at::Tensor logits = logits_of(model, row);
      for (std::size_t changed = 0; changed + 1 < lengths.size(); ++changed) {
        std::vector<int> others = draws;
        others[changed] += 5;
        const Batch other = shared_row(others);
        const at::Tensor changed_logits = logits_of(model, other);
        for (std::size_t document = 0; document < lengths.size(); ++document) {
          const bool same =
              at::equal(rows_of_document(logits, row, document), rows_of_document(changed_logits, other, document));
          BOOST_TEST(same == (document != changed), name_of(model.config().family) << ", " << changed << " changed");
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
