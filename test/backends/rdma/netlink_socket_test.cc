#include "netlink_socket.h"

#include <gtest/gtest.h>
#include <linux/rtnetlink.h>

#include <cerrno>

#include "kernel_stand_in.h"
#include "message.h"

namespace rdma {
namespace {

constexpr int kType = RTM_NEWLINK;

RequestMessage AnyRequest(int flags = 0) {
  RequestMessage message(RTM_GETLINK, flags);
  message.Reserve<ifinfomsg>();
  return message;
}

NetlinkError ErrorOf(KernelStandIn& kernel, int flags = 0) {
  NetlinkSocket socket = kernel.Connect();
  try {
    socket.Dump(AnyRequest(flags).get(), "do it", [](const nlmsghdr*) { FAIL() << "an answer"; });
  } catch (const NetlinkError& e) {
    return e;
  }
  return NetlinkError(0, "no error");
}

TEST(NetlinkSocket, TakesAnAcknowledgementForOneRequestOnly) {
  KernelStandIn kernel([](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Result(request.nlmsg_seq - 1, EPERM), Result(request.nlmsg_seq + 7, EPERM),
            Result(request.nlmsg_seq, 0)};
  });
  NetlinkSocket socket = kernel.Connect();
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(socket.Request(AnyRequest().get(), "do it"));
  for (const Bytes& request : kernel.requests()) {
    EXPECT_EQ(reinterpret_cast<const nlmsghdr*>(request.data())->nlmsg_flags,
              NLM_F_REQUEST | NLM_F_ACK);
  }
}

TEST(NetlinkSocket, QuotesTheKernelsText) {
  const Bytes text = Join(
      {Number<uint32_t>(NLMSGERR_ATTR_OFFS, 16), Attribute(NLMSGERR_ATTR_MSG, "not on Sundays")});
  KernelStandIn capped([&](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Result(request.nlmsg_seq, EBUSY, NLM_F_CAPPED | NLM_F_ACK_TLVS, text)};
  });
  const NetlinkError error = ErrorOf(capped);
  EXPECT_EQ(error.error(), EBUSY);
  EXPECT_STREQ(error.what(), "do it: Device or resource busy (not on Sundays)");

  // A kernel before 4.3 repeats the request.
  KernelStandIn whole([&](const nlmsghdr& request) -> std::vector<Bytes> {
    nlmsgerr result{.error = -EBUSY, .msg = request};
    return {Message(request.nlmsg_seq, NLMSG_ERROR, NLM_F_ACK_TLVS,
                    Join({Body(result), Bytes(sizeof(ifinfomsg)), text}))};
  });
  EXPECT_STREQ(ErrorOf(whole).what(), "do it: Device or resource busy (not on Sundays)");

  KernelStandIn at_the_end([&](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Done(request.nlmsg_seq, EINVAL, text)};
  });
  EXPECT_STREQ(ErrorOf(at_the_end, NLM_F_DUMP).what(), "do it: Invalid argument (not on Sundays)");
}

TEST(NetlinkSocket, GetsByWithoutAGoodTextToAnError) {
  const auto with = [](int flags, Bytes attributes, uint32_t request_length = NLMSG_HDRLEN) {
    KernelStandIn kernel([&](const nlmsghdr& request) -> std::vector<Bytes> {
      nlmsgerr result{};
      result.error = -EBUSY;
      result.msg.nlmsg_len = request_length;
      return {Message(request.nlmsg_seq, NLMSG_ERROR, flags, Join({Body(result), attributes}))};
    });
    return std::string(ErrorOf(kernel).what());
  };
  const Bytes text = Attribute(NLMSGERR_ATTR_MSG, "text");
  const std::string bare = "do it: Device or resource busy";
  EXPECT_EQ(with(NLM_F_CAPPED, text), bare);
  EXPECT_EQ(with(NLM_F_CAPPED | NLM_F_ACK_TLVS, {}), bare);
  EXPECT_EQ(
      with(NLM_F_CAPPED | NLM_F_ACK_TLVS, Attribute(NLMSGERR_ATTR_MSG, Bytes{'t', 'e', 'x', 't'})),
      bare + " (text)");
  EXPECT_EQ(with(NLM_F_CAPPED | NLM_F_ACK_TLVS, Attribute(NLMSGERR_ATTR_MSG, Bytes{'t'}, 400)),
            bare);
  EXPECT_EQ(with(NLM_F_CAPPED | NLM_F_ACK_TLVS, Attribute(NLMSGERR_ATTR_MSG, Bytes{'t'}, 0)), bare);
  EXPECT_EQ(with(NLM_F_CAPPED | NLM_F_ACK_TLVS, Attribute(NLMSGERR_ATTR_MSG, Bytes{})), bare);
  for (const uint32_t length : {0u, 3u, 17u, 4096u, 0x7fffffffu, 0xffffffffu}) {
    SCOPED_TRACE(length);
    EXPECT_EQ(with(NLM_F_ACK_TLVS, {}, length), bare);
  }
}

TEST(NetlinkSocket, RefusesBrokenAnswers) {
  const auto error_of = [](const std::function<Bytes(uint32_t)>& datagram) {
    KernelStandIn kernel([&](const nlmsghdr& request) -> std::vector<Bytes> {
      return {datagram(request.nlmsg_seq)};
    });
    return ErrorOf(kernel, NLM_F_DUMP).error();
  };
  EXPECT_EQ(error_of([](uint32_t n) { return Message(n, kType, 0, Bytes(16), 4000); }), EBADMSG);
  EXPECT_EQ(error_of([](uint32_t n) { return Message(n, kType, 0, Bytes(16), 15); }), EBADMSG);
  EXPECT_EQ(error_of([](uint32_t n) { return Message(n, kType, 0, Bytes(16), 0); }), EBADMSG);
  EXPECT_EQ(error_of([](uint32_t n) { return Message(n, NLMSG_ERROR, 0, Bytes(4)); }), EBADMSG);
  EXPECT_EQ(error_of([](uint32_t n) {
              return Message(n, NLMSG_ERROR, 0, Body(nlmsgerr{.error = 5, .msg = {}}));
            }),
            EPROTO);
}

TEST(NetlinkSocket, SaysSoIfNoAnswerComes) {
  KernelStandIn kernel([](const nlmsghdr&) -> std::vector<Bytes> { return {}; },
                       {.tv_sec = 0, .tv_usec = 20'000});
  EXPECT_EQ(ErrorOf(kernel).error(), ETIMEDOUT);
}

std::vector<int> TypesOf(NetlinkSocket& socket, int flags) {
  std::vector<int> types;
  socket.Dump(AnyRequest(flags).get(), "list",
              [&](const nlmsghdr* answer) { types.push_back(answer->nlmsg_type); });
  return types;
}

TEST(NetlinkSocket, GivesTheAnswersOfAllDatagramsOfAnyLength) {
  KernelStandIn kernel([](const nlmsghdr& request) -> std::vector<Bytes> {
    const uint32_t n = request.nlmsg_seq;
    return {
        Join({Message(n, 100, NLM_F_MULTI, Bytes(20)), Message(n, 101, NLM_F_MULTI, Bytes(21))}),
        Message(n, 102, NLM_F_MULTI, Bytes(150'000)), Message(n, 103, NLM_F_MULTI, {}), Done(n)};
  });
  NetlinkSocket socket = kernel.Connect();
  EXPECT_EQ(TypesOf(socket, NLM_F_DUMP), (std::vector<int>{100, 101, 102, 103}));
  EXPECT_EQ(TypesOf(socket, NLM_F_DUMP), (std::vector<int>{100, 101, 102, 103}));
}

TEST(NetlinkSocket, GivesTheAnswerOfARequestThatIsNoDump) {
  KernelStandIn kernel([](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Message(request.nlmsg_seq, 100, 0, Bytes(8)), Result(request.nlmsg_seq, 0)};
  });
  NetlinkSocket socket = kernel.Connect();
  EXPECT_EQ(TypesOf(socket, 0), std::vector<int>{100});
}

TEST(NetlinkSocket, MakesAnInterruptedDumpAgain) {
  for (const bool at_the_end : {false, true}) {
    SCOPED_TRACE(at_the_end);
    int dumps = 0;
    KernelStandIn kernel([&](const nlmsghdr& request) -> std::vector<Bytes> {
      const int flags = NLM_F_MULTI | (++dumps < 4 ? NLM_F_DUMP_INTR : 0);
      const uint32_t n = request.nlmsg_seq;
      return {Message(n, 100 + dumps, at_the_end ? NLM_F_MULTI : flags, {}),
              Message(n, 200 + dumps, NLM_F_MULTI, {}),
              Done(n, 0, {}, at_the_end ? flags : NLM_F_MULTI)};
    });
    NetlinkSocket socket = kernel.Connect();
    EXPECT_EQ(TypesOf(socket, NLM_F_DUMP), (std::vector<int>{104, 204}));
  }
}

TEST(NetlinkSocket, NeverGivesAnIncompleteList) {
  KernelStandIn kernel([](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Message(request.nlmsg_seq, 100, NLM_F_MULTI | NLM_F_DUMP_INTR, {}),
            Done(request.nlmsg_seq)};
  });
  EXPECT_EQ(ErrorOf(kernel, NLM_F_DUMP).error(), EINTR);

  KernelStandIn failing([](const nlmsghdr& request) -> std::vector<Bytes> {
    return {Message(request.nlmsg_seq, 100, NLM_F_MULTI, {}), Done(request.nlmsg_seq, ENOMEM)};
  });
  EXPECT_EQ(ErrorOf(failing, NLM_F_DUMP).error(), ENOMEM);
}

TEST(NetlinkSocket, TellsAProtocolThatTheKernelHasNot) {
  try {
    NetlinkSocket socket(NETLINK_CRYPTO + 10);
    FAIL();
  } catch (const NetlinkError& e) {
    EXPECT_EQ(e.error(), EPROTONOSUPPORT);
    EXPECT_STREQ(e.what(), "open netlink socket of protocol 31: Protocol not supported");
  }
}

TEST(NetlinkSocket, ARequestStaysWithinAPage) {
  RequestMessage message(kType, 0);
  EXPECT_THROW(message.PutString(1, std::string(100'000, 'x')), NetlinkError);
}

}  // namespace
}  // namespace rdma
