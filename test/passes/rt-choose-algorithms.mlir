// RUN: echelon-opt %s --rt-choose-algorithms --split-input-file | FileCheck %s
// RUN: echelon-opt %s --rt-choose-algorithms=gpu --split-input-file | FileCheck %s --check-prefix=GPU
// Each message takes the algorithm that the machine's figures say is the fastest, and tells why.

!few = !rt.buffer<[n=1024], f32>
!many = !rt.buffer<[n=16777216], f32>

// Over a network that nobody has measured, rounds and bytes decide: few of both for a short sum, bytes for a long one.
// CHECK: module
// CHECK-NOT: rt.tuner
// GPU: module attributes
// GPU-SAME: network = {bandwidth = 1.000000e+09
// GPU-NOT: rt.chosen
// GPU: with "bf16_summands"
module attributes {dist.mesh = #dist.mesh<dp = 8 [batch]>,
                   dist.links = {per_node = 2, link = {bandwidth = 1.0e+10, latency = 1.0e-06},
                                 network = {bandwidth = 1.0e+09, latency = 1.0e-05}},
                   rt.groups = [array<i64: 0>]} {
  // CHECK-LABEL: rt.function @train
  rt.function @train {
    %few = rt.alloc work : !few
    %many = rt.alloc work : !many
    // CHECK: count 1024 {{.*}} with "butterfly" why "a" {rt.chosen = "butterfly 37.8 us; tree 59.2 us
    rt.collective "all_reduce" %few, %few count 1024 "Sum" over [0] ranks 8 "dp" with "automatic" why "a" {rt.group = 0} : !few, !few
    // CHECK: count 16777216 {{.*}} with "ring" why "b" {rt.chosen = "ring
    rt.collective "all_reduce" %many, %many count 16777216 "Sum" over [0] ranks 8 "dp" with "automatic" why "b" {rt.group = 0} : !many, !many
    // What a clause pins stays, and what travels rounded.
    // CHECK: with "tree" why "c" {rt.group = 0
    rt.collective "all_reduce" %many, %many count 16777216 "Sum" over [0] ranks 8 "dp" with "tree" why "c" {rt.group = 0} : !many, !many
    // CHECK: with "bf16_summands" why "d" {rt.group = 0
    rt.collective "all_reduce" %many, %many count 16777216 "Sum" over [0] ranks 8 "dp" with "bf16_summands" why "d" {rt.group = 0} : !many, !many
  }
}

// -----

!few = !rt.buffer<[n=1024], f32>
!some = !rt.buffer<[n=2048], f32>
!many = !rt.buffer<[n=262144], f32>

// What was measured goes before that: the transport's own way stays but for one that is clearly faster, and where a
// number of ranks was not measured.
// CHECK: module
// GPU: module attributes
// GPU-SAME: rt.tuner = [{algorithm = "tree", channels = 0 : i64, group = 0 : i64, most = 1024 : i64, op = "all_reduce", protocol = "", why = "tree 5 us
// GPU-SAME: {algorithm = "any", channels = 0 : i64, group = 0 : i64, most = 0 : i64,
module attributes {dist.mesh = #dist.mesh<dp = 4 [batch], tp = 2 []>,
                   dist.links = {per_node = 8, link = {bandwidth = 1.0e+10, latency = 1.0e-06, curves = [
                     {name = "all_reduce", ranks = 4, bytes = array<f64: 1024.0, 1048576.0>, seconds = array<f64: 1.0e-05, 1.0e-02>},
                     {name = "all_reduce_tree", ranks = 4, bytes = array<f64: 1024.0, 1048576.0>, seconds = array<f64: 5.0e-06, 2.0e-02>},
                     {name = "all_reduce_ring", ranks = 4, bytes = array<f64: 1024.0, 1048576.0>, seconds = array<f64: 2.0e-05, 9.8e-03>}]}},
                   rt.groups = [array<i64: 0>, array<i64: 1>]} {
  // CHECK-LABEL: rt.function @train
  rt.function @train {
    %few = rt.alloc work : !few
    %many = rt.alloc work : !many
    // CHECK: count 256 {{.*}} with "tree" why "a" {rt.chosen = "tree 5 us; automatic 10 us"
    rt.collective "all_reduce" %few, %few count 256 "Sum" over [0] ranks 4 "dp" with "automatic" why "a" {rt.group = 0} : !few, !few
    // CHECK: count 262144 {{.*}} with "automatic" why "b" {rt.chosen = "automatic 10 ms; ring 9.8 ms"
    rt.collective "all_reduce" %many, %many count 262144 "Sum" over [0] ranks 4 "dp" with "automatic" why "b" {rt.group = 0} : !many, !many
    // CHECK: with "automatic" why "c" {rt.group = 1
    rt.collective "all_reduce" %many, %many count 262144 "Sum" over [1] ranks 2 "tp" with "automatic" why "c" {rt.group = 1} : !many, !many
  }
}

// -----

!few = !rt.buffer<[n=1024], f32>
!some = !rt.buffer<[n=4096], f32>
!part = !rt.buffer<[n=2097152], f32>
!many = !rt.buffer<[n=16777216], f32>

// A library is told by group and size; its protocols are no algorithms of ours. Sizes that go the same way have one row.
// Of a large gather there is one way alone, which is no choice: the row of the small one ends with its size.
// CHECK: module
// CHECK-NOT: rt.tuner
// CHECK-NOT: rt.chosen
// GPU: module attributes
// GPU-SAME: rt.tuner = [
// GPU-SAME: {algorithm = "ring", channels = 0 : i64, group = 0 : i64, most = 16384 : i64, op = "all_gather", protocol = "ll128", why = "ring ll128
// GPU-SAME: {algorithm = "ring", channels = 0 : i64, group = 0 : i64, most = 16384 : i64, op = "all_reduce", protocol = "ll128", why = "ring ll128 {{[^;]*}}; ring simple
// GPU-SAME: {algorithm = "nvls", channels = 16 : i64, group = 0 : i64, most = 0 : i64, op = "all_reduce", protocol = "simple", why = "nvls switch
module attributes {dist.mesh = #dist.mesh<dp = 8 [batch]>,
                   dist.links = {per_node = 8, link = {bandwidth = 4.5e+11, latency = 3.0e-06, protocols = [
                     {name = "ll128", start = 2.0e-05, rate = 0.5, limit = 2.0e+06},
                     {name = "simple", start = 4.0e-05, rate = 0.8},
                     {name = "switch", start = 8.0e-05, rate = 0.8, in_switch, channels = 16}]}},
                   rt.groups = [array<i64: 0>]} {
  rt.function @train {
    %few = rt.alloc work : !few
    %some = rt.alloc work : !some
    %part = rt.alloc work : !part
    %many = rt.alloc work : !many
    // GPU: with "automatic" why "a" {rt.chosen = "ring ll128
    rt.collective "all_reduce" %few, %few count 1024 "Sum" over [0] ranks 8 "dp" with "automatic" why "a" {rt.group = 0} : !few, !few
    rt.collective "all_reduce" %some, %some count 4096 "Sum" over [0] ranks 8 "dp" with "automatic" why "b" {rt.group = 0} : !some, !some
    // GPU: count 16777216 {{.*}} with "automatic" why "c" {rt.chosen = "nvls switch
    rt.collective "all_reduce" %many, %many count 16777216 "Sum" over [0] ranks 8 "dp" with "automatic" why "c" {rt.group = 0} : !many, !many
    // GPU: rt.collective "all_gather" {{.*}} with "automatic" why "d" {rt.chosen = "ring ll128
    rt.collective "all_gather" %few, %some count 512 over [0] ranks 8 "dp" with "automatic" why "d" {rt.group = 0} : !few, !some
    // GPU: rt.collective "all_gather" {{.*}} with "automatic" why "e" {rt.group = 0
    rt.collective "all_gather" %part, %many count 2097152 over [0] ranks 8 "dp" with "automatic" why "e" {rt.group = 0} : !part, !many
  }
}

// -----

!many = !rt.buffer<[n=262144], f32>

// Where nobody has described or measured the machine, the runtime's own rule stands.
// CHECK: module
// CHECK: with "automatic" why "a" {rt.group = 0
// CHECK-NOT: rt.chosen
module attributes {dist.mesh = #dist.mesh<dp = 4 [batch]>, rt.groups = [array<i64: 0>]} {
  rt.function @train {
    %many = rt.alloc work : !many
    rt.collective "all_reduce" %many, %many count 262144 "Sum" over [0] ranks 4 "dp" with "automatic" why "a" {rt.group = 0} : !many, !many
  }
}
