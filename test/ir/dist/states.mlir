// The mesh and the states are read and printed alike.
// RUN: echelon-opt %s | echelon-opt | FileCheck %s

// CHECK: module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], tp = 4 [head, ff padded, vocab, seq], cp = 2 [seq zigzag, layer cyclic 2, past], pp = 2 [stage blocks (3, 4), part cyclic 2 (1, 2, 3, 1)]>}
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], tp = 4 [head, ff padded, vocab, seq], cp = 2 [seq zigzag, layer cyclic 2, past], pp = 2 [stage blocks (3, 4), part cyclic 2 (1, 2, 3, 1)]>} {
  ech.step @train {
    // CHECK: <[batch=8, ff=6], f32, #dist.state<dp = split batch, tp = split ff, cp = whole, pp = whole>>
    %x = ech.constant 1.0 : !ech.tensor<[batch=8, ff=6], f32, #dist.state<dp = split batch, tp = split ff, cp = whole, pp = whole>>
    // CHECK: #dist.state<dp = cut embed, tp = sum, cp = whole, pp = whole>
    %y = ech.constant 1.0 : !ech.tensor<[embed=8], f32, #dist.state<dp = cut embed, tp = sum, cp = whole, pp = whole>>
    // CHECK: #dist.state<dp = flat, tp = whole, cp = whole, pp = whole>
    %z = ech.constant 1.0 : !ech.tensor<[embed=7], f32, #dist.state<dp = flat, tp = whole, cp = whole, pp = whole>>
    // CHECK: #dist.state<dp = whole, tp = whole, cp = whole, pp = split stage>
    %l = ech.constant 1.0 : !ech.tensor<[stage=7], f32, #dist.state<dp = whole, tp = whole, cp = whole, pp = split stage>>
    // CHECK: dist.mask %{{.*}} along ["ff"] with 0.000000e+00
    %m = dist.mask %x along ["ff"] with 0.0 : !ech.tensor<[batch=8, ff=6], f32, #dist.state<dp = split batch, tp = split ff, cp = whole, pp = whole>>
  }
}
