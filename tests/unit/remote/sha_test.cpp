#include "remote/sha.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

using namespace lockstep;

BOOST_AUTO_TEST_SUITE(sha)

// The examples of FIPS 180-4, and lengths around the ends of blocks as sha1sum(1) and sha256sum(1) hash them.
BOOST_AUTO_TEST_CASE(texts_have_the_hashes_of_the_standard) {
  const std::vector<std::array<std::string, 3>> known{
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
       "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
       "a9993e364706816aba3e25717850c26c9cd0d89d"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
       "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
      {std::string(55, 'a'), "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
       "c1c8bbdc22796e28c0e15163d20899b65621d65a"},
      {std::string(56, 'a'), "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
       "c2db330f6083854c99d4b5bfb6e8f29f201be699"},
      {std::string(64, 'a'), "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
       "0098ba824b5c16427bd7a1122a5a442a25ec644d"},
      {std::string(65, 'a'), "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0",
       "11655326c708d70319be2610e8a57d9a5b959d3b"}};
  for (const auto& [text, sha256, sha1] : known) {
    for (const std::size_t piece :
         {text.size() + 1, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{100}}) {
      for (const auto& [kind, expected] : {std::pair(ShaKind::sha256, sha256), std::pair(ShaKind::sha1, sha1)}) {
        Sha hash(kind);
        for (std::size_t at = 0; at < text.size(); at += piece)
          hash.add(std::as_bytes(std::span(text)).subspan(at, std::min(piece, text.size() - at)));
        BOOST_TEST(hash.hex() == expected);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
