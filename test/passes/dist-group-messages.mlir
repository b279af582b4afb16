// Messages that wait for nothing else travel together; but not parts of large values, which lie apart.
// RUN: echelon-opt %s -dist-group-messages=alone-kb=1000 | FileCheck %s --check-prefixes=CHECK,ALL
// RUN: echelon-opt %s -dist-group-messages="alone-kb=1000 bucket-mb=1" | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: echelon-opt %s -dist-group-messages=alone-kb=600 | FileCheck %s --check-prefixes=CHECK,ALONE

!sum = !ech.tensor<[], f32, #dist.state<dp = sum>>
!one = !ech.tensor<[], f32, #dist.state<dp = whole>>
!gsum = !ech.tensor<[embed=200000], f32, #dist.state<dp = sum>>
!gcut = !ech.tensor<[embed=200000], f32, #dist.state<dp = cut embed>>
!g = !ech.tensor<[embed=200000], f32, #dist.state<dp = whole>>
!p = !ech.tensor<[embed=200000], f32>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
  ech.variable param @a : !p = constant(0.0, 0.0)
  ech.variable param @b : !p = constant(0.0, 0.0)
  // CHECK-LABEL: ech.step @train
  ech.step @train {
    %l = ech.constant 1.0 : !sum
    %m = ech.constant 2.0 : !sum
    %da = ech.constant 1.0 {ech.phase = "backward"} : !gsum
    %db = ech.constant 2.0 {ech.phase = "backward"} : !gsum
    // The loss and the metric.
    // CHECK-DAG: dist.all_reduce %{{.*}}, %{{.*}} over ["dp"] why "split batch over dp: report of loss, report of accuracy"
    %0 = dist.all_reduce %l over ["dp"] why "split batch over dp: report of loss" : (!sum) -> !one
    ech.report loss "loss", %0 : !one
    %1 = dist.all_reduce %m over ["dp"] why "split batch over dp: report of accuracy" : (!sum) -> !one
    ech.report metric "accuracy", %1 : !one
    // The gradients of 0.8 MB each: one message; two where a bucket holds 1 MB, or where what has 0.6 MB,
    // as it is sent or as it arrives, travels alone.
    // ALL: dist.reduce_scatter %{{.*}}, %{{.*}} over ["dp"] why "store: write of a, write of b"
    // FULL: dist.reduce_scatter %{{[0-9]+}} over ["dp"] why "store: write of a"
    // FULL: dist.reduce_scatter %{{[0-9]+}} over ["dp"] why "store: write of b"
    // ALONE: dist.reduce_scatter %{{[0-9]+}} over ["dp"] why "store: write of a"
    // ALONE: dist.all_gather %{{[0-9]+}} over ["dp"] why "store: write of a"
    // ALONE: dist.reduce_scatter %{{[0-9]+}} over ["dp"] why "store: write of b"
    // ALONE: dist.all_gather %{{[0-9]+}} over ["dp"] why "store: write of b"
    %2 = dist.reduce_scatter %da over ["dp"] why "store: write of a" {ech.phase = "update"} : (!gsum) -> !gcut
    %3 = ech.map neg %2 {ech.phase = "update"} : (!gcut) -> !gcut
    %4 = dist.all_gather %3 over ["dp"] why "store: write of a" {ech.phase = "update"} : (!gcut) -> !g
    ech.write @a, %4 {ech.phase = "update"} : !g
    %5 = dist.reduce_scatter %db over ["dp"] why "store: write of b" {ech.phase = "update"} : (!gsum) -> !gcut
    %6 = ech.map neg %5 {ech.phase = "update"} : (!gcut) -> !gcut
    // The parameters.
    // ALL: dist.all_gather %{{.*}}, %{{.*}} over ["dp"]
    %7 = dist.all_gather %6 over ["dp"] why "store: write of b" {ech.phase = "update"} : (!gcut) -> !g
    ech.write @b, %7 {ech.phase = "update"} : !g
  }
}
