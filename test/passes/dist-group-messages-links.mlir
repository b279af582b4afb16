// How much a bucket of gradients holds goes by the machine's links, where the module has them and nobody says otherwise.
// RUN: echelon-opt %s -dist-group-messages --split-input-file | FileCheck %s
// RUN: echelon-opt %s -dist-group-messages=bucket-mb=25 --split-input-file | FileCheck %s --check-prefix=SAID

!sum = !ech.tensor<[embed=2000000], f32, #dist.state<dp = sum>>
!one = !ech.tensor<[embed=2000000], f32, #dist.state<dp = whole>>
!p = !ech.tensor<[embed=2000000], f32>

// Nothing runs beside compute, and a message costs as much to begin as to send: all travel together.
// CHECK: module attributes {dist.buckets = ["buckets of all_reduce over dp hold 32 MB: {{.*}}; of 25 MB {{.*}}"]
// CHECK: dist.all_reduce %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} over ["dp"]
// SAID-NOT: dist.buckets
// SAID: dist.all_reduce %{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}} over ["dp"]
// SAID: dist.all_reduce %{{[^,]*}} over ["dp"]
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>,
                   dist.links = {per_node = 2, link = {bandwidth = 1.0e+11, latency = 1.0e-03, costs = {overlap = 0.0}}}} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  ech.step @train {
    %da = ech.constant 1.0 {ech.phase = "backward"} : !sum
    %db = ech.constant 2.0 {ech.phase = "backward"} : !sum
    %dc = ech.constant 3.0 {ech.phase = "backward"} : !sum
    %dd = ech.constant 4.0 {ech.phase = "backward"} : !sum
    %a = dist.all_reduce %da over ["dp"] why "split batch over dp: gradient of a" {ech.phase = "update"} : (!sum) -> !one
    ech.write @a, %a {ech.phase = "update"} : !one
    %b = dist.all_reduce %db over ["dp"] why "split batch over dp: gradient of b" {ech.phase = "update"} : (!sum) -> !one
    ech.write @a, %b {ech.phase = "update"} : !one
    %c = dist.all_reduce %dc over ["dp"] why "split batch over dp: gradient of c" {ech.phase = "update"} : (!sum) -> !one
    ech.write @a, %c {ech.phase = "update"} : !one
    %d = dist.all_reduce %dd over ["dp"] why "split batch over dp: gradient of d" {ech.phase = "update"} : (!sum) -> !one
    ech.write @a, %d {ech.phase = "update"} : !one
  }
}

// -----

!sum = !ech.tensor<[embed=2000000], f32, #dist.state<dp = sum>>
!one = !ech.tensor<[embed=2000000], f32, #dist.state<dp = whole>>
!p = !ech.tensor<[embed=2000000], f32>

// Messages run beside compute but for the last one, and cost little to begin: that is kept short.
// CHECK: module attributes {dist.buckets = ["buckets of all_reduce over dp hold 8 MB: {{.*}}; of 25 MB {{.*}}"]
// CHECK: dist.all_reduce %{{[^,]*}} over ["dp"]
// CHECK: dist.all_reduce %{{[^,]*}} over ["dp"]
// SAID: module
// SAID-NOT: dist.buckets
// SAID: dist.all_reduce %{{[^,]*}}, %{{[^,]*}} over ["dp"]
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>,
                   dist.links = {per_node = 2, link = {bandwidth = 1.0e+09, latency = 1.0e-06}}} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  ech.step @train {
    %da = ech.constant 1.0 {ech.phase = "backward"} : !sum
    %db = ech.constant 2.0 {ech.phase = "backward"} : !sum
    %a = dist.all_reduce %da over ["dp"] why "split batch over dp: gradient of a" {ech.phase = "update"} : (!sum) -> !one
    ech.write @a, %a {ech.phase = "update"} : !one
    %b = dist.all_reduce %db over ["dp"] why "split batch over dp: gradient of b" {ech.phase = "update"} : (!sum) -> !one
    ech.write @a, %b {ech.phase = "update"} : !one
  }
}
