// Each operation that changes a state, in one line of text.
// RUN: echelon-opt %s | echelon-opt | FileCheck %s

#whole = #dist.state<dp = whole, tp = whole>
#seq = #dist.state<dp = whole, tp = split seq>
#head = #dist.state<dp = whole, tp = split head>
#sum = #dist.state<dp = whole, tp = sum>
!whole = !ech.tensor<[seq=8, head=4], f32, #whole>
!seq = !ech.tensor<[seq=8, head=4], f32, #seq>
!head = !ech.tensor<[seq=8, head=4], f32, #head>
!sum = !ech.tensor<[seq=8, head=4], f32, #sum>
!wholes = !ech.tensor<[layer=3, seq=8, head=4], f32, #whole>
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch], tp = 2 [head, seq]>} {
  ech.step @train {
    %w = ech.constant 1.0 : !whole
    // CHECK: %[[SEQ:.*]] = dist.convert %{{.*}} why "split seq over tp"
    %0 = dist.convert %w why "split seq over tp" : !whole -> !seq
    // CHECK: %[[SUM:.*]] = dist.slice %{{.*}} over ["tp"] why "held by coordinate 0"
    %1 = dist.slice %w over ["tp"] why "held by coordinate 0" : !whole -> !sum
    // CHECK: dist.reduce_scatter %[[SUM]], %[[SUM]] over ["tp"] why "two in one message" with "ring"
    %2:2 = dist.reduce_scatter %1, %1 over ["tp"] why "two in one message" with "ring" : (!sum, !sum) -> (!seq, !head)
    // CHECK: dist.all_to_all %[[SEQ]] over ["tp"]
    %3 = dist.all_to_all %0 over ["tp"] why "" : (!seq) -> !head
    // CHECK: dist.all_reduce %[[SUM]]
    %4 = dist.all_reduce %1 over ["tp"] why "" : (!sum) -> !whole
    // CHECK: dist.all_gather %[[SEQ]]
    %5 = dist.all_gather %0 over ["tp"] why "" : (!seq) -> !whole
    // CHECK: dist.exchange %[[SEQ]]
    %6 = dist.exchange %0 over ["dp", "tp"] why "" : (!seq) -> !head
    // CHECK: dist.broadcast %[[SUM]] over ["tp"] from 1 why ""
    %7 = dist.broadcast %1 over ["tp"] from 1 why "" : (!sum) -> !whole
    // CHECK: %[[TOKEN:.*]] = dist.start "reduce_scatter" %[[SUM]] over ["tp"] why "" with "tree" : (!{{.*}}) -> !dist.token
    %8 = dist.start "reduce_scatter" %1 over ["tp"] why "" with "tree" : (!sum) -> !dist.token
    // CHECK: dist.wait %[[TOKEN]]
    %9 = dist.wait %8 : (!dist.token) -> !seq
    %10, %11 = ech.repeat "layer" = 3 carry(%1 : !sum) -> (!sum) stack (!wholes) {
    ^bb0(%c: !sum):
      // CHECK: %[[EACH:.*]] = dist.start_each "all_reduce" %{{.*}} over ["tp"] why "" with "ring" :
      %12 = dist.start_each "all_reduce" %c over ["tp"] why "" with "ring" : (!sum) -> !whole
      ech.yield carry(%c : !sum) stack(%12 : !whole)
    }
    // CHECK: dist.wait_each %{{.*}} : <[layer=3, seq=8, head=4], f32, #{{.*}}>
    %13 = dist.wait_each %11 : !wholes
  }
}
