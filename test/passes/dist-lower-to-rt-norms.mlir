// RUN: echelon-opt %s --dist-split-inside --dist-lower-to-rt --split-input-file | FileCheck %s

// Rows are normalized by one kernel, and one row is a row though nothing is kept. Of channels whose result nobody reads
// the statistics are taken of x as it lies: (outer, channels, inner).
// CHECK-LABEL: rt.function @train
!x = !ech.tensor<[batch=4, c=2, width=8], f32>
!c = !ech.tensor<[c=2], f32>
!row = !ech.tensor<[batch=4, c=2], f32>
!one = !ech.tensor<[], f32>
ech.variable state @x : !x = constant(0.0, 0.0)
ech.variable state @mean : !c = constant(0.0, 0.0)
ech.step @train {
  %x = ech.read @x : !x
  // CHECK: rt.normalize %{{[0-9]+}}, %{{[0-9]+}}, %[[X:.*]] of <batch=4, c=2> <width=8> epsilon 1.000000e-05
  %y, %rstd, %m, %v, %lo = ech.normalize %x over ["width"] : (!x) -> (!x, !row, !row, !row, !row)
  // CHECK: rt.normalize %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} of <> <batch=4, c=2, width=8> epsilon
  %z, %rstd_z, %m_z, %v_z, %lo_z = ech.normalize %y over ["batch", "c", "width"] : (!x) -> (!x, !one, !one, !one, !one)
  // CHECK: rt.channel_statistics %{{[0-9]+}} statistics %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} : {{.*}}, %[[X]] of <batch=4> <c=2> <width=8> epsilon
  %u, %rstd_u, %m_u, %v_u, %lo_u = ech.normalize %x over ["batch", "width"] : (!x) -> (!x, !c, !c, !c, !c)
  ech.write @x, %z : !x
  ech.write @mean, %m_u : !c
}

// -----

// Over ranks that hold pieces: moments of each, gathered, combined, finished.
// CHECK-LABEL: rt.function @train
// CHECK:       rt.partial moments(%[[X:.*]]) -> (%[[M:.*]]) of [#rt.size<batch=2>, #rt.size<c=2>, #rt.size<width=8>]
// CHECK:       rt.collective "all_gather" %[[M]], %[[ALL:.*]] count 6
// CHECK:       rt.combine moments(%[[ALL]]) -> (%[[U:.*]]) of [#rt.size<rank=2>, #rt.size<c=2>]
// CHECK:       rt.combine statistics(%[[U]]) -> (%{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}}) of [#rt.size<c=2>] epsilon
!x = !ech.tensor<[batch=4, c=2, width=8], f32, #dist.state<dp = split batch>>
!c = !ech.tensor<[c=2], f32, #dist.state<dp = whole>>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch]>} {
  ech.variable state @x : !x = constant(0.0, 0.0)
  ech.variable state @mean : !c = constant(0.0, 0.0)
  ech.step @train {
    %x = ech.read @x : !x
    %y, %rstd, %m, %v, %lo = ech.normalize %x over ["batch", "width"] {dist.inside = ["dp"], ech.why = "split batch over dp: inside normalize"} : (!x) -> (!x, !c, !c, !c, !c)
    ech.write @mean, %m : !c
  }
}
