// A change of state becomes the messages that make it.
// RUN: echelon-opt %s -dist-form-collectives | FileCheck %s

!www = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = whole, tp = whole>>
!wss = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = whole, tp = split seq>>
!wsh = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = whole, tp = split head>>
!wp = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = whole, tp = sum>>
!pp = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = sum, tp = sum>>
!ss = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = split seq, tp = split seq>>
!sw = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = split seq, tp = whole>>
!ps = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = sum, tp = split head>>
!cs = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = cut seq, tp = split head>>
!fs = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = flat, tp = split head>>
!wf = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = whole, tp = flat>>
!cf = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = cut seq, tp = flat>>
!fw = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = flat, tp = whole>>
!ff = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = flat, tp = flat>>
!pw = !ech.tensor<[seq=8, head=4], f32, #dist.state<dp = sum, tp = whole>>
!one = !ech.tensor<[head=4], f32, #dist.state<dp = whole, tp = sum>>
!all = !ech.tensor<[head=4], f32, #dist.state<dp = whole, tp = whole>>

// CHECK-LABEL: ech.step @train
module attributes {dist.mesh = #dist.mesh<dp = 2 [batch, seq], tp = 2 [head, seq]>,
                   dist.algorithms = [{op = "all_gather", over = ["tp"], algorithm = "ring"}]} {
  ech.step @train {
    %www = ech.constant 0.0 : !www
    %wss = ech.constant 0.0 : !wss
    %wp = ech.constant 0.0 : !wp
    %pp = ech.constant 0.0 : !pp
    %ps = ech.constant 0.0 : !ps
    %ss = ech.constant 0.0 : !ss

    // A whole value is cut locally.
    // CHECK: dist.slice {{.*}} over ["tp"] why "a"
    %a = dist.convert %www why "a" : !www -> !wss
    // CHECK-NEXT: dist.all_gather {{.*}} over ["tp"] why "b" with "ring"
    %b = dist.convert %wss why "b" : !wss -> !www
    // CHECK-NEXT: dist.reduce_scatter {{.*}} over ["tp"] why "c"
    %c = dist.convert %wp why "c" : !wp -> !wss
    // CHECK-NEXT: dist.all_to_all {{.*}} over ["tp"] why "d"
    %d = dist.convert %wss why "d" : !wss -> !wsh
    // Sums over two mesh axes are one message.
    // CHECK-NEXT: dist.all_reduce {{.*}} over ["dp", "tp"] why "e"
    %e = dist.convert %pp why "e" : !pp -> !www
    // A gradient goes into its cut.
    // CHECK-NEXT: dist.reduce_scatter {{.*}} over ["dp"] why "f" {{.*}}dp = cut seq, tp = split head
    %f = dist.convert %ps why "f" : !ps -> !cs
    // CHECK-NEXT: dist.reduce_scatter {{.*}} over ["dp"] why "g" {{.*}}dp = flat, tp = split head
    %g = dist.convert %ps why "g" : !ps -> !fs
    // dp nests inside nothing: the slower of two splits may not go alone.
    // CHECK-NEXT: dist.exchange {{.*}} over ["dp", "tp"] why "h"
    %h = dist.convert %ss why "h" : !ss -> !wss
    // The faster one may.
    // CHECK-NEXT: dist.all_gather {{.*}} over ["tp"] why "i"
    %i = dist.convert %ss why "i" : !ss -> !sw

    // A flat cut lies inside a local piece: it goes before that piece changes, and comes after.
    // CHECK: %[[WF:.*]] = ech.constant 1.0
    %wf = ech.constant 1.0 : !wf
    // CHECK-NEXT: dist.all_gather %[[WF]] over ["tp"] why "k"
    // CHECK-NEXT: dist.slice {{.*}} over ["dp"] why "k"
    // CHECK-NEXT: dist.slice {{.*}} over ["tp"] why "k"
    %k = dist.convert %wf why "k" : !wf -> !cf
    // CHECK-NEXT: dist.all_gather %[[WF]] over ["tp"] why "l"
    // CHECK-NEXT: dist.slice {{.*}} over ["dp", "tp"] why "l"
    %l = dist.convert %wf why "l" : !wf -> !ff
    // CHECK: %[[FW:.*]] = ech.constant 2.0
    %fw = ech.constant 2.0 : !fw
    // CHECK-NEXT: dist.all_gather %[[FW]] over ["dp"] why "m"
    // CHECK-NEXT: dist.slice {{.*}} over ["tp"] why "m"
    // CHECK-NEXT: dist.slice {{.*}} over ["dp"] why "m"
    %m = dist.convert %fw why "m" : !fw -> !fs
    // Of two flat cuts the outer one comes first.
    // CHECK: %[[PW:.*]] = ech.constant 3.0
    %pw = ech.constant 3.0 : !pw
    // CHECK-NEXT: dist.reduce_scatter %[[PW]] over ["dp"] why "n"
    // CHECK-NEXT: dist.slice {{.*}} over ["tp"] why "n"
    %n = dist.convert %pw why "n" : !pw -> !ff

    // What was picked from one coordinate's part is broadcast: position 5 of 8 is held by coordinate 1 of 2.
    // CHECK: %[[PICK:.*]] = ech.pick
    // CHECK-NEXT: dist.broadcast %[[PICK]] over ["tp"] from 1 why "j"
    %p = ech.pick %wss["seq" = 5] : (!wss) -> !one
    %j = dist.convert %p why "j" : !one -> !all
  }
}
