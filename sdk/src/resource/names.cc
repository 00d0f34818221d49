#include "dra/resource/names.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "dra/base/ids.h"
#include "dra/resource/limits.h"

namespace dra::resource {
namespace {

bool IsLowerAlnum(char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c); }
bool IsAlnum(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); }

absl::Status Bad(absl::string_view name, absl::string_view rule) {
  return absl::InvalidArgumentError(absl::StrCat("\"", name, "\": ", rule));
}

absl::Status CheckLength(absl::string_view name, size_t limit) {
  if (name.empty()) return Bad(name, "must not be empty");
  if (name.size() <= limit) return absl::OkStatus();
  return Bad(name, absl::StrCat("must be at most ", limit, " bytes, has ", name.size()));
}

bool HasLabelShape(absl::string_view name) {
  return !name.empty() && IsLowerAlnum(name.front()) && IsLowerAlnum(name.back()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

bool HasSubdomainShape(absl::string_view name) {
  for (const absl::string_view part : absl::StrSplit(name, '.')) {
    if (!HasLabelShape(part)) return false;
  }
  return true;
}

bool HasLabelNameShape(absl::string_view name) {
  return !name.empty() && IsAlnum(name.front()) && IsAlnum(name.back()) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return IsAlnum(c) || c == '-' || c == '_' || c == '.'; });
}

absl::Status CheckSubdomainOf(absl::string_view name, size_t limit) {
  if (absl::Status length = CheckLength(name, limit); !length.ok()) return length;
  if (HasSubdomainShape(name)) return absl::OkStatus();
  return Bad(name,
             "must be a DNS-1123 subdomain: lower-case letters, digits, '-' and '.', each part "
             "starting and ending "
             "with a letter or digit");
}

}  // namespace

absl::Status CheckDnsLabel(absl::string_view name) {
  if (absl::Status length = CheckLength(name, kMaxDnsLabelBytes); !length.ok()) return length;
  if (HasLabelShape(name)) return absl::OkStatus();
  return Bad(name,
             "must be a DNS-1123 label: lower-case letters, digits and '-', starting and ending "
             "with a letter or "
             "digit");
}

absl::Status CheckDnsSubdomain(absl::string_view name) {
  return CheckSubdomainOf(name, kMaxDnsSubdomainBytes);
}

absl::Status CheckIdentifier(absl::string_view name) {
  if (absl::Status length = CheckLength(name, kMaxIdentifierBytes); !length.ok()) return length;
  const auto is_word = [](char c) { return IsAlnum(c) || c == '_'; };
  if (!absl::ascii_isdigit(name.front()) && std::all_of(name.begin(), name.end(), is_word))
    return absl::OkStatus();
  return Bad(name, "must be a C identifier: letters, digits and '_', not starting with a digit");
}

absl::Status CheckQualifiedName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() > 2)
    return Bad(name, "must be \"<identifier>\" or \"<domain>/<identifier>\", with one '/' at most");
  if (parts.size() == 1) return CheckIdentifier(name);
  if (absl::Status domain = CheckDriverNameAsServer(parts[0]); !domain.ok()) {
    return Bad(name, absl::StrCat("domain ", domain.message()));
  }
  if (absl::Status id = CheckIdentifier(parts[1]); !id.ok())
    return Bad(name, absl::StrCat("identifier ", id.message()));
  return absl::OkStatus();
}

absl::Status CheckFullyQualifiedName(absl::string_view name) {
  if (name.find('/') == absl::string_view::npos) {
    return Bad(name, "must have a domain: \"<domain>/<identifier>\"");
  }
  // Alone among the qualified names this one wants a domain in lower case.
  if (absl::Status domain = CheckDriverName(name.substr(0, name.find('/'))); !domain.ok()) {
    return Bad(name, absl::StrCat("domain ", domain.message()));
  }
  return CheckQualifiedName(name);
}

absl::Status CheckPoolName(absl::string_view name) {
  if (absl::Status length = CheckLength(name, kMaxPoolNameBytes); !length.ok()) return length;
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (!HasSubdomainShape(part)) {
      return Bad(name, "must be one or more DNS-1123 subdomains joined by '/'");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckDriverName(absl::string_view name) {
  return CheckSubdomainOf(name, kMaxDriverNameBytes);
}

absl::Status CheckDriverNameAsServer(absl::string_view name) {
  return CheckSubdomainOf(absl::AsciiStrToLower(name), kMaxDriverNameBytes);
}

absl::Status CheckDriverNameForCdi(absl::string_view name) {
  if (absl::Status status = CheckDriverName(name); !status.ok()) return status;
  if (absl::ascii_islower(name.front())) return absl::OkStatus();
  return Bad(name, "must start with a letter: it becomes the vendor of CDI kinds");
}

absl::Status CheckLabelName(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() > 2) return Bad(name, "must be \"<name>\" or \"<DNS subdomain>/<name>\"");
  if (parts.size() == 2) {
    if (absl::Status prefix = CheckDnsSubdomain(parts[0]); !prefix.ok()) {
      return Bad(name, absl::StrCat("prefix ", prefix.message()));
    }
  }
  const absl::string_view id = parts.back();
  if (absl::Status length = CheckLength(id, kMaxLabelNameBytes); !length.ok()) {
    return Bad(name, absl::StrCat("name ", length.message()));
  }
  if (HasLabelNameShape(id)) return absl::OkStatus();
  return Bad(
      name,
      "must be letters, digits, '-', '_' and '.', starting and ending with a letter or digit");
}

absl::Status CheckLabelValue(absl::string_view value) {
  if (value.empty()) return absl::OkStatus();
  if (absl::Status length = CheckLength(value, kMaxLabelValueBytes); !length.ok()) return length;
  if (HasLabelNameShape(value)) return absl::OkStatus();
  return Bad(
      value,
      "must be letters, digits, '-', '_' and '.', starting and ending with a letter or digit");
}

absl::Status CheckShareId(absl::string_view share_id) {
  if (IsUuid(share_id) && absl::AsciiStrToLower(share_id) == share_id) return absl::OkStatus();
  return Bad(share_id, "must be a lower-case RFC 4122 UUID of 36 bytes");
}

absl::Status CheckRequestReference(absl::string_view name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() > 2) return Bad(name, "must be \"<request>\" or \"<request>/<subrequest>\"");
  for (const absl::string_view part : parts) {
    if (absl::Status status = CheckDnsLabel(part); !status.ok()) return Bad(name, status.message());
  }
  return absl::OkStatus();
}

}  // namespace dra::resource
