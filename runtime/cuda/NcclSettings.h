// What NCCL is told of the network between machines, where the user has not told it anything.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace echelon::cuda {

struct NcclSetting {
  std::string variable, value, reason;
};

/// What this machine shows of its network, as variables of NCCL. `root`: the folder that has /sys; tests give one of
/// their own.
///   NCCL_SOCKET_IFNAME  the interface over which the ranks have met: those of a container or a second network, which
///                       NCCL might take, need not reach the other machines
///   NCCL_IB_DISABLE     1 where no InfiniBand or RoCE port is active, so that NCCL does not try
///   NCCL_IB_HCA         the active ports, where some of the machine's are not: of InfiniBand alone where there are
///                       such, since its ports and those of Ethernet do not reach each other
///   NCCL_NET_GDR_LEVEL  PHB where cards may read the memory of GPUs (nvidia_peermem), no GPU is behind a PCIe switch
///                       with a card, and one is on a card's NUMA node: NCCL by itself goes no further than switches
/// interface: of Transport::networkInterface(); empty, then all ranks are on one machine and there is nothing to tell.
/// isSet: whether the user has set a variable; those are left out.
std::vector<NcclSetting> ncclSettings(const std::string &interface, const std::function<bool(const char *)> &isSet,
                                      const std::string &root = "");

/// Sets them in this process's environment; a line for each, "NCCL_IB_DISABLE=1: no InfiniBand …".
std::vector<std::string> setForNccl(const std::vector<NcclSetting> &settings);

} // namespace echelon::cuda
