#include "dra/base/ids.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/random.h>

#include <cctype>
#include <memory>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "dra/base/status.h"

namespace dra {
namespace {

std::string RandomBytes(size_t bytes) {
  std::string buffer(bytes, '\0');
  if (::getrandom(buffer.data(), bytes, 0) == static_cast<ssize_t>(bytes)) return buffer;
  std::random_device device;  // the system call is denied or was interrupted
  for (char& c : buffer) c = static_cast<char>(device());
  return buffer;
}

// Of this thread: each claim needs a dozen small digests, and looking the algorithm up costs more than any of them.
EVP_MD_CTX* DigestContext() {
  struct Free {
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  thread_local const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  static EVP_MD* const sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  if (context == nullptr || sha256 == nullptr) return nullptr;
  return EVP_DigestInit_ex2(context.get(), sha256, nullptr) == 1 ? context.get() : nullptr;
}

}  // namespace

std::array<uint8_t, 32> Sha256(absl::string_view bytes) {
  std::array<uint8_t, 32> digest{};
  EVP_MD_CTX* const context = DigestContext();
  if (context == nullptr || EVP_DigestUpdate(context, bytes.data(), bytes.size()) != 1 ||
      EVP_DigestFinal_ex(context, digest.data(), nullptr) != 1) {
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  }
  return digest;
}

std::string Sha256Hex(absl::string_view bytes) {
  const auto digest = Sha256(bytes);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), digest.size()));
}

std::string Sha256Base64Url(absl::string_view bytes, size_t bytes_used) {
  const auto digest = Sha256(bytes);
  return absl::WebSafeBase64Escape(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), bytes_used));
}

std::string RandomHex(size_t bytes) { return absl::BytesToHexString(RandomBytes(bytes)); }

std::string NewUuid() {
  std::string bytes = RandomBytes(16);
  bytes[6] = static_cast<char>((static_cast<unsigned char>(bytes[6]) & 0x0f) | 0x40);
  bytes[8] = static_cast<char>((static_cast<unsigned char>(bytes[8]) & 0x3f) | 0x80);
  const std::string hex = absl::BytesToHexString(bytes);
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

bool IsUuid(absl::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !absl::ascii_isxdigit(static_cast<unsigned char>(text[i])))
      return false;
  }
  return true;
}

bool IsSafeFileId(absl::string_view uid) {
  if (uid.empty() || uid.size() > 128 || uid[0] == '.') return false;
  for (const char c : uid) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-')
      return false;
  }
  return true;
}

absl::StatusOr<std::string> ReadBootId(FileSystem& fs, absl::string_view proc_root) {
  const std::string path = JoinPath(proc_root, "sys/kernel/random/boot_id");
  const absl::StatusOr<std::string> text = fs.ReadFile(path, 4096);
  if (!text.ok()) return Annotate(text.status(), "boot id");
  const std::string boot_id(absl::StripAsciiWhitespace(*text));
  if (!IsSafeFileId(boot_id)) {
    return absl::DataLossError(
        absl::StrCat("boot id: the ", text->size(), " bytes of ", path,
                     " are none; without it nothing is known of what this boot holds"));
  }
  return boot_id;
}

}  // namespace dra
