#include "dra/cdi/names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "cdi/text_rules.h"
#include "dra/base/status.h"

namespace dra::cdi {
namespace {

bool IsAlpha(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)); }

// `extra`: what may stand between the ends besides letters and digits.
absl::Status CheckCharacters(absl::string_view what, absl::string_view name,
                             absl::string_view extra) {
  for (const char c : name) {
    if (!IsAlnum(c) && extra.find(c) == absl::string_view::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "invalid ", what, " \"", name, "\": only letters, digits and ", extra, " are allowed"));
    }
  }
  if (!IsAlnum(name.back())) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid ", what, " \"", name, "\": must end with a letter or a digit"));
  }
  return absl::OkStatus();
}

absl::Status CheckVendorOrClass(absl::string_view what, absl::string_view name) {
  if (name.empty())
    return absl::InvalidArgumentError(absl::StrCat("invalid ", what, ". empty name"));
  if (name.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid ", what, " \"", name, "\": must have two characters or more"));
  }
  if (!IsAlpha(name.front())) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid ", what, " \"", name, "\": must start with a letter"));
  }
  return CheckCharacters(what, name, "_.-");
}

}  // namespace

std::string QualifiedName::kind() const { return absl::StrCat(vendor, "/", device_class); }
std::string QualifiedName::ToString() const { return absl::StrCat(kind(), "=", name); }

absl::Status ValidateVendor(absl::string_view vendor) {
  return CheckVendorOrClass("vendor", vendor);
}

absl::Status ValidateClass(absl::string_view device_class) {
  return CheckVendorOrClass("class", device_class);
}

absl::Status ValidateDeviceName(absl::string_view name) {
  if (name.empty()) return absl::InvalidArgumentError("invalid device name, empty name");
  if (!IsAlnum(name.front())) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid device name \"", name, "\": must start with a letter or a digit"));
  }
  return CheckCharacters("device name", name, "_.:-");
}

std::string VendorOf(absl::string_view kind) {
  const size_t slash = kind.find('/');
  return slash == absl::string_view::npos ? "" : std::string(kind.substr(0, slash));
}

std::string ClassOf(absl::string_view kind) {
  const size_t slash = kind.find('/');
  return slash == absl::string_view::npos ? "" : std::string(kind.substr(slash + 1));
}

absl::Status ValidateKind(absl::string_view kind) {
  DRA_RETURN_IF_ERROR(ValidateVendor(VendorOf(kind)));
  return ValidateClass(ClassOf(kind));
}

absl::StatusOr<QualifiedName> SplitQualifiedName(absl::string_view text) {
  const auto unqualified = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("unqualified device \"", text, "\", ", why));
  };
  if (!text.empty() && text.front() == '/') return unqualified("is a path");
  const size_t equals = text.find('=');
  const absl::string_view kind = text.substr(0, equals);
  if (VendorOf(kind).empty()) return unqualified("missing vendor");
  if (ClassOf(kind).empty()) return unqualified("missing class");
  if (equals == absl::string_view::npos || equals + 1 == text.size()) {
    return unqualified("missing device name");
  }
  return QualifiedName{VendorOf(kind), ClassOf(kind), std::string(text.substr(equals + 1))};
}

absl::StatusOr<QualifiedName> ParseQualifiedName(absl::string_view text) {
  DRA_ASSIGN_OR_RETURN(QualifiedName name, SplitQualifiedName(text));
  const std::string context = absl::StrCat("invalid device \"", text, "\"");
  DRA_RETURN_IF_ERROR(Annotate(ValidateVendor(name.vendor), context));
  DRA_RETURN_IF_ERROR(Annotate(ValidateClass(name.device_class), context));
  DRA_RETURN_IF_ERROR(Annotate(ValidateDeviceName(name.name), context));
  return name;
}

bool FitsContainerAnnotation(absl::string_view plugin, absl::string_view device_id) {
  return plugin.size() + 1 + device_id.size() <= kMaxAnnotationName;
}

}  // namespace dra::cdi
