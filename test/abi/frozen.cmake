# cmake -DHEADER=abi.h -DSUM=abi.h.sha256 -P frozen.cmake: fails if the header is not the one that was released.
file(SHA256 "${HEADER}" now)
file(READ "${SUM}" released)
string(STRIP "${released}" released)
if(NOT now STREQUAL released)
  message(FATAL_ERROR "${HEADER} changed: a released header is never edited")
endif()
