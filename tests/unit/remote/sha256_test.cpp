#include "remote/sha256.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(sha256)

// The examples of FIPS 180-4, and lengths around the ends of blocks as sha256sum(1) hashes them.
BOOST_AUTO_TEST_CASE(texts_have_the_hashes_of_the_standard) {
  const std::vector<std::pair<std::string, std::string>> known{
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
      {std::string(55, 'a'), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {std::string(56, 'a'), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {std::string(64, 'a'), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {std::string(65, 'a'), "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"}};
  for (const auto& [text, expected] : known) {
    for (const std::size_t piece :
         {text.size() + 1, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{100}}) {
      Sha256 hash;
      for (std::size_t at = 0; at < text.size(); at += piece)
        hash.add(std::as_bytes(std::span(text)).subspan(at, std::min(piece, text.size() - at)));
      BOOST_TEST(hash.hex() == expected);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
