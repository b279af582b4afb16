// RUN: echelon-opt %s | echelon-opt | FileCheck %s

// Every operation reads back what it prints.
// CHECK: ech.variable param @a : !ech.tensor<[i=3, j=4], f32> = normal({{.*}}) stacked 1 decayed
// CHECK: ech.input @q 0 : !ech.tensor<[s=3, k=2], f32> below 0
// CHECK: ech.step @train {
ech.variable param @a : !ech.tensor<[i=3, j=4], f32> = normal(0.0, 0.02) stacked 1 decayed
ech.variable state @x : !ech.tensor<[h=5, ci=2], f32> = constant(0.0, 0.0)
ech.variable optimizer @w : !ech.tensor<[co=3, ci=2, kh=3], f32> = uniform(-1.0, 1.0)
ech.input @q 0 : !ech.tensor<[s=3, k=2], f32> below 0
ech.input @k 1 : !ech.tensor<[t=4, k=2], f32> below 0
ech.step @train {
  // CHECK: ech.read @a : <[i=3, j=4], f32>
  %a = ech.read @a : <[i=3, j=4], f32>
  // CHECK: ech.constant 0.0{{.*}} : <[], f32>
  %zero = ech.constant 0.0 : <[], f32>
  // CHECK: ech.count over ["i", "j"] = [3, 4] : <[], f32>
  %n = ech.count over ["i", "j"] = [3, 4] : <[], f32>
  // CHECK: ech.scalar "learning_rate" line 1 : <[], f32>
  %lr = ech.scalar "learning_rate" line 1 : <[], f32>
  // CHECK: ech.scalar "bias_correction" beta 5.0{{.*}} : <[], f32>
  %bc = ech.scalar "bias_correction" beta 0.5 : <[], f32>
  // CHECK: ech.index "j" : <[j=4], i32>
  %ix = ech.index "j" : <[j=4], i32>
  // CHECK: ech.random normal "site"(0.0{{.*}}, 1.0{{.*}}) : <[i=3, j=4], f32>
  %r = ech.random normal "site" (0.0, 1.0) : <[i=3, j=4], f32>
  // CHECK: ech.map mul
  %m = ech.map mul %a, %r : (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3, j=4], f32>
  // CHECK: ech.map cast {{.*}} : (!ech.tensor<[j=4], i32>) -> !ech.tensor<[j=4], f32>
  %c = ech.map cast %ix : (!ech.tensor<[j=4], i32>) -> !ech.tensor<[j=4], f32>
  // CHECK: ech.expand {{.*}} : <[j=4], f32> -> <[i=3, j=4], f32>
  %e = ech.expand %c : <[j=4], f32> -> <[i=3, j=4], f32>
  // CHECK: ech.dot {{.*}} over ["j"]
  %d = ech.dot %a, %r over ["j"] : (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3], f32>
  // CHECK: ech.reduce max {{.*}} over ["j"]
  %mx = ech.reduce max %a over ["j"] : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3], f32>
  // CHECK: ech.argmax
  %am = ech.argmax %a over ["j"] : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3], i32>
  // CHECK: ech.softmax
  %sm = ech.softmax %a over ["j"] : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3, j=4], f32>
  // CHECK: ech.logsumexp
  %ls:3 = ech.logsumexp %a over ["j"] : (!ech.tensor<[i=3, j=4], f32>) -> (!ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>)
  // CHECK: ech.cross_entropy
  %l, %sh, %lo = ech.cross_entropy %a, %am over ["j"] : (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3], i32>) -> (!ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>)
  // CHECK: ech.normalize {{.*}} over ["j"] {rms}
  %y, %rstd, %mean, %var, %low = ech.normalize %a over ["j"] {rms} : (!ech.tensor<[i=3, j=4], f32>) -> (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>, !ech.tensor<[i=3], f32>)
  // CHECK: ech.normalize_grad
  %dx = ech.normalize_grad %a, %y, %rstd over ["j"] {rms} : (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3], f32>) -> !ech.tensor<[i=3, j=4], f32>
  // CHECK: ech.cumsum {{.*}} over ["j"] {reverse}
  %cs = ech.cumsum %a over ["j"] {reverse} : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3, j=4], f32>
  // CHECK: ech.top {{.*}} over ["j"] into "k"
  %top = ech.top %a over ["j"] into "k" : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3, k=2], i32>
  // CHECK: ech.global_norm
  %gn = ech.global_norm %a, %r : (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[], f32>
  // CHECK: ech.gather {{.*}} at ["j"] =
  %g = ech.gather %a at ["j"] = %am : (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3], i32>) -> !ech.tensor<[i=3], f32>
  // CHECK: ech.scatter_add {{.*}} at ["j"] =
  %sc = ech.scatter_add %g at ["j"] = %am : (!ech.tensor<[i=3], f32>, !ech.tensor<[i=3], i32>) -> !ech.tensor<[i=3, j=4], f32>
  // CHECK: ech.pick {{.*}}["j" = 2]
  %pk = ech.pick %a["j" = 2] : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3], f32>
  // CHECK: ech.place {{.*}}["j" = 2]
  %pl = ech.place %pk["j" = 2] : (!ech.tensor<[i=3], f32>) -> !ech.tensor<[i=3, j=4], f32>
  // CHECK: ech.slice {{.*}}["j" from 1]
  %sl = ech.slice %a["j" from 1] : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3, j=2], f32>
  // CHECK: ech.pad {{.*}}["j" from 1]
  %pd = ech.pad %sl["j" from 1] : (!ech.tensor<[i=3, j=2], f32>) -> !ech.tensor<[i=3, j=4], f32>
  // CHECK: ech.relabel {{.*}} {{\[\["j"\]\] -> \[\["u", "v"\]\]}}
  %rl = ech.relabel %a [["j"]] -> [["u", "v"]] : (!ech.tensor<[i=3, j=4], f32>) -> !ech.tensor<[i=3, u=2, v=2], f32>
  // CHECK: ech.concat {{.*}} along "j"
  %cc = ech.concat %a, %sl along "j" : (!ech.tensor<[i=3, j=4], f32>, !ech.tensor<[i=3, j=2], f32>) -> !ech.tensor<[i=3, j=6], f32>
  // CHECK: ech.read @x
  %x = ech.read @x : <[h=5, ci=2], f32>
  // CHECK: ech.read @w
  %w = ech.read @w : <[co=3, ci=2, kh=3], f32>
  // CHECK: ech.conv {{.*}} {kernel = ["kh"], over = ["ci"]
  %cv = ech.conv %x, %w {kernel = ["kh"], over = ["ci"], padHigh = array<i64: 1>, padLow = array<i64: 1>, stride = array<i64: 1>, window = ["h"]} : (!ech.tensor<[h=5, ci=2], f32>, !ech.tensor<[co=3, ci=2, kh=3], f32>) -> !ech.tensor<[h=5, co=3], f32>
  // CHECK: ech.conv_grad_x
  %cx = ech.conv_grad_x %cv, %w {kernel = ["kh"], over = ["ci"], padHigh = array<i64: 1>, padLow = array<i64: 1>, stride = array<i64: 1>, window = ["h"]} : (!ech.tensor<[h=5, co=3], f32>, !ech.tensor<[co=3, ci=2, kh=3], f32>) -> !ech.tensor<[h=5, ci=2], f32>
  // CHECK: ech.conv_grad_w
  %cw = ech.conv_grad_w %cv, %x {kernel = ["kh"], over = ["ci"], padHigh = array<i64: 1>, padLow = array<i64: 1>, stride = array<i64: 1>, window = ["h"]} : (!ech.tensor<[h=5, co=3], f32>, !ech.tensor<[h=5, ci=2], f32>) -> !ech.tensor<[co=3, ci=2, kh=3], f32>
  // CHECK: ech.pool avg
  %po = ech.pool avg %x {pad = array<i64: 0>, size = array<i64: 2>, stride = array<i64: 2>, window = ["h"]} : (!ech.tensor<[h=5, ci=2], f32>) -> !ech.tensor<[h=2, ci=2], f32>
  // CHECK: ech.pool_grad avg
  %pg = ech.pool_grad avg %po, %x {pad = array<i64: 0>, size = array<i64: 2>, stride = array<i64: 2>, window = ["h"]} : (!ech.tensor<[h=2, ci=2], f32>, !ech.tensor<[h=5, ci=2], f32>) -> !ech.tensor<[h=5, ci=2], f32>
  // CHECK: ech.read @q
  %q = ech.read @q : <[s=3, k=2], f32>
  // CHECK: ech.read @k
  %k = ech.read @k : <[t=4, k=2], f32>
  %rr = ech.random uniform "r" (0.0, 1.0) : <[s=3], f32>
  %tt = ech.random uniform "t" (0.0, 1.0) : <[t=4], f32>
  // CHECK: ech.map lt
  %mi = ech.map lt %rr, %tt : (!ech.tensor<[s=3], f32>, !ech.tensor<[t=4], f32>) -> !ech.tensor<[s=3, t=4], i1>
  // CHECK: ech.attention {{.*}} mask {{.*}} bias
  %at, %am2, %al = ech.attention %q, %k, %k mask %mi bias %tt {key = "k", past = "t", query = "s", scale = 1.0} : (!ech.tensor<[s=3, k=2], f32>, !ech.tensor<[t=4, k=2], f32>, !ech.tensor<[t=4, k=2], f32>, !ech.tensor<[s=3, t=4], i1>, !ech.tensor<[t=4], f32>) -> (!ech.tensor<[s=3, k=2], f32>, !ech.tensor<[s=3], f32>, !ech.tensor<[s=3], f32>)
  // CHECK: ech.attention_grad {{.*}} mask {{.*}} bias
  %dq, %dk, %dv, %db = ech.attention_grad %at, %q, %k, %k, %at, %am2, %al mask %mi bias %tt {key = "k", past = "t", query = "s", scale = 1.0} : (!ech.tensor<[s=3, k=2], f32>, !ech.tensor<[s=3, k=2], f32>, !ech.tensor<[t=4, k=2], f32>, !ech.tensor<[t=4, k=2], f32>, !ech.tensor<[s=3, k=2], f32>, !ech.tensor<[s=3], f32>, !ech.tensor<[s=3], f32>, !ech.tensor<[s=3, t=4], i1>, !ech.tensor<[t=4], f32>) -> (!ech.tensor<[s=3, k=2], f32>, !ech.tensor<[t=4, k=2], f32>, !ech.tensor<[t=4, k=2], f32>, !ech.tensor<[t=4], f32>)
  // CHECK: ech.repeat "i" = 3 reverse along carry({{.*}}) slice({{.*}}) -> (!ech.tensor<[], f32>) stack (!ech.tensor<[i=3], f32>) sum (!ech.tensor<[j=4], f32>) {
  // CHECK: ech.position "i" : <[], i32>
  // CHECK: ech.yield carry({{.*}}) stack({{.*}}) sum(
  %f, %st, %su = ech.repeat "i" = 3 reverse along carry(%zero : !ech.tensor<[], f32>) slice(%a : !ech.tensor<[i=3, j=4], f32>) -> (!ech.tensor<[], f32>) stack (!ech.tensor<[i=3], f32>) sum (!ech.tensor<[j=4], f32>) {
  ^bb0(%z: !ech.tensor<[], f32>, %row: !ech.tensor<[j=4], f32>):
    %p = ech.position "i" : <[], i32>
    ech.yield carry(%z : !ech.tensor<[], f32>) stack(%z : !ech.tensor<[], f32>) sum(%row : !ech.tensor<[j=4], f32>)
  }
  // CHECK: ech.report metric "norm",
  ech.report metric "norm", %gn : <[], f32>
  // CHECK: ech.gradient @a,
  ech.gradient @a, %a : <[i=3, j=4], f32>
  // CHECK: ech.write @a,
  ech.write @a, %a : <[i=3, j=4], f32>
}
