// RUN: echelon-opt --ech-compress --verify-diagnostics %s
// A clause that packs nothing is refused: two factors of rank 2 have more numbers than w.

module attributes {dist.mesh = #dist.mesh<dp = 4 [batch]>, ech.batch_axis = "batch"} {
// expected-error @+1 {{E0409: powersgd(rank = 2) makes no tensor of this model smaller, so nothing is packed; take a lower rank, or leave it out}}
run.compress "powersgd" over ["dp"] amount 2.0
ech.input @x 0 : !ech.tensor<[batch=8, in=3, out=4], f32> below 0
ech.variable param @w : !ech.tensor<[in=3, out=4], f32> = normal(0.0, 0.02)
ech.step @train {
  %x = ech.read @x : <[batch=8, in=3, out=4], f32>
  %g = ech.reduce sum %x over ["batch"] : (!ech.tensor<[batch=8, in=3, out=4], f32>) -> !ech.tensor<[in=3, out=4], f32>
  ech.gradient @w, %g : <[in=3, out=4], f32>
}
}
