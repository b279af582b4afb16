// What CUDA's compiler makes for the device, too.
#pragma once

#ifdef __CUDACC__
#define ECHELON_HOST_DEVICE __host__ __device__
#else
#define ECHELON_HOST_DEVICE
#endif
