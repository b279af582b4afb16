// RUN: echelon-opt --split-input-file --verify-diagnostics %s

// What an operation does not accept, it names with axes and sizes.
ech.step @train {
  %a = ech.constant 0.0 : <[i=3], f32>
  %b = ech.constant 0.0 : <[i=4], f32>
  // expected-error @+1 {{'ech.map' op meets axis i with two sizes, 3 and 4}}
  %c = ech.map add %a, %b : (!ech.tensor<[i=3], f32>, !ech.tensor<[i=4], f32>) -> !ech.tensor<[i=3], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=3], f32>
  // expected-error @+1 {{'ech.map' op add takes 2 operands, not 1}}
  %c = ech.map add %a : (!ech.tensor<[i=3], f32>) -> !ech.tensor<[i=3], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=3], i32>
  // expected-error @+1 {{'ech.map' op exp is of real numbers, not 'i32'}}
  %c = ech.map exp %a : (!ech.tensor<[i=3], i32>) -> !ech.tensor<[i=3], i32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=3], f32>
  %b = ech.constant 0.0 : <[i=3], i32>
  // expected-error @+1 {{'ech.map' op mul meets elements 'f32' and 'i32'}}
  %c = ech.map mul %a, %b : (!ech.tensor<[i=3], f32>, !ech.tensor<[i=3], i32>) -> !ech.tensor<[i=3], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=3, j=2], f32>
  // expected-error @+1 {{'ech.expand' op adds axes, and the result [i = 3, k = 2] lacks j}}
  %c = ech.expand %a : <[i=3, j=2], f32> -> <[i=3, k=2], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=3, j=2], f32>
  %b = ech.constant 0.0 : <[j=2], f32>
  // expected-error @+1 {{'ech.dot' op the right operand [j = 2] has no axis i}}
  %c = ech.dot %a, %b over ["i"] : (!ech.tensor<[i=3, j=2], f32>, !ech.tensor<[j=2], f32>) -> !ech.tensor<[j=2], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=3, j=2], f32>
  // expected-error @+1 {{'ech.reduce' op the result has the axes [j = 2], not [i = 3]}}
  %c = ech.reduce sum %a over ["j"] : (!ech.tensor<[i=3, j=2], f32>) -> !ech.tensor<[j=2], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=3, j=2], f32>
  // expected-error @+1 {{'ech.argmax' op goes along one axis, not 2}}
  %c = ech.argmax %a over ["i", "j"] : (!ech.tensor<[i=3, j=2], f32>) -> !ech.tensor<[], i32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[v=3, e=2], f32>
  %i = ech.constant 0.0 : <[n=4], f32>
  // expected-error @+1 {{'ech.gather' op an index has elements 'f32', not 'i32'}}
  %c = ech.gather %a at ["v"] = %i : (!ech.tensor<[v=3, e=2], f32>, !ech.tensor<[n=4], f32>) -> !ech.tensor<[n=4, e=2], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[v=3, e=2], f32>
  // expected-error @+1 {{'ech.pick' op positions 3 .. 4 leave axis v = 3}}
  %c = ech.pick %a["v" = 3] : (!ech.tensor<[v=3, e=2], f32>) -> !ech.tensor<[e=2], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[v=6], f32>
  // expected-error @+1 {{'ech.relabel' op gives 6 positions the names of 8}}
  %c = ech.relabel %a [["v"]] -> [["a", "b"]] : (!ech.tensor<[v=6], f32>) -> !ech.tensor<[a=2, b=4], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[v=6], f32>
  // expected-error @+1 {{'ech.concat' op along v joins 12 positions into 11}}
  %c = ech.concat %a, %a along "v" : (!ech.tensor<[v=6], f32>, !ech.tensor<[v=6], f32>) -> !ech.tensor<[v=11], f32>
}

// -----

ech.step @train {
  %x = ech.constant 0.0 : <[h=2, c=1], f32>
  %w = ech.constant 0.0 : <[d=1, c=1, k=5], f32>
  // expected-error @+1 {{'ech.conv' op a window of 5 does not fit into h = 2 padded by 1 and 1}}
  %y = ech.conv %x, %w {kernel = ["k"], over = ["c"], padHigh = array<i64: 1>, padLow = array<i64: 1>, stride = array<i64: 1>, window = ["h"]} : (!ech.tensor<[h=2, c=1], f32>, !ech.tensor<[d=1, c=1, k=5], f32>) -> !ech.tensor<[h=1, d=1], f32>
}

// -----

ech.step @train {
  %q = ech.constant 0.0 : <[s=3, k=2], f32>
  %k = ech.constant 0.0 : <[s=3, k=2], f32>
  // expected-error @+1 {{'ech.attention' op k [s = 3, k = 2] has no axis t}}
  %y, %m, %l = ech.attention %q, %k, %k {key = "k", past = "t", query = "s", scale = 1.0} : (!ech.tensor<[s=3, k=2], f32>, !ech.tensor<[s=3, k=2], f32>, !ech.tensor<[s=3, k=2], f32>) -> (!ech.tensor<[s=3, k=2], f32>, !ech.tensor<[s=3], f32>, !ech.tensor<[s=3], f32>)
}

// -----

ech.step @train {
  // expected-error @+1 {{'ech.position' op is in no repeat over layer}}
  %p = ech.position "layer" : <[], i32>
}

// -----

ech.variable param @w : !ech.tensor<[i=3], f32> = constant(0.0, 0.0)
ech.step @train {
  // expected-error @+1 {{'ech.read' op the value has the axes [i = 4], not [i = 3]}}
  %w = ech.read @w : <[i=4], f32>
}

// -----

ech.step @train {
  // expected-error @+1 {{'ech.read' op @w is no variable and no input}}
  %w = ech.read @w : <[i=4], f32>
}

// -----

ech.variable param @w : !ech.tensor<[i=3], f32> = constant(0.0, 0.0)
ech.step @train {
  %w = ech.read @w : <[i=3], f32>
  // expected-error @+1 {{'ech.write' op @v is no variable}}
  ech.write @v, %w : <[i=3], f32>
}

// -----

ech.variable param @w : !ech.tensor<[i=3], f32> = constant(0.0, 0.0)
ech.step @train {
  %w = ech.read @w : <[i=3], f32>
  // expected-error @+1 {{'ech.gradient' op @v is no variable}}
  ech.gradient @v, %w : <[i=3], f32>
}

// -----

ech.step @train {
  %a = ech.constant 0.0 : <[i=4], f32>
  // expected-error @+1 {{'ech.report' op a reported value has the axes [i = 4], not []}}
  ech.report loss "loss", %a : <[i=4], f32>
}

// -----

// expected-error @+1 {{'ech.variable' op is a tensor with named axes, not 'f32'}}
ech.variable param @w : f32 = constant(0.0, 0.0)

// -----

// expected-error @+1 {{'ech.variable' op is stacked along 2 axes, and has 1}}
ech.variable param @w : !ech.tensor<[i=3], f32> = constant(0.0, 0.0) stacked 2

// -----

// expected-error @+1 {{'ech.input' op is a tensor with named axes, not 'i32'}}
ech.input @x 0 : i32 below 0

// -----

ech.step @train {
  // expected-error @+1 {{'ech.count' op has one size an axis: 2 axes, 1 sizes}}
  %n = ech.count over ["i", "j"] = [3] : <[], f32>
}

// -----

ech.step @train {
  // expected-error @+1 {{'ech.scalar' op is a number that the run provides, and no run provides lr}}
  %n = ech.scalar "lr" : <[], f32>
}

// -----

ech.step @train {
  // expected-error @+1 {{'ech.random' op draws from a distribution, and a constant is none}}
  %n = ech.random constant "noise"(0.0, 1.0) : <[i=4], f32>
}

// -----

ech.step @train {
  %x = ech.constant 0.0 : <[], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[], f32>) -> (!ech.tensor<[], f32>) {
  ^bb0(%a: !ech.tensor<[], f32>):
    // expected-error @+1 {{block with no terminator}}
    %b = ech.map neg %a : (!ech.tensor<[], f32>) -> !ech.tensor<[], f32>
  }
}

// -----

// Each query has keys of its own: what is walked against them is no axis of the keys.
ech.step @train {
  %q = ech.constant 0.0 : <[seq=4, key=8], f32>
  %k = ech.constant 0.0 : <[seq=4, past=4, key=8], f32>
  // expected-error @+1 {{'ech.attention' op k [seq = 4, past = 4, key = 8] has the axis seq of the queries, which is walked against past}}
  %y, %m, %l = ech.attention %q, %k, %k {query = "seq", past = "past", key = "key", scale = 1.0 : f64} : (!ech.tensor<[seq=4, key=8], f32>, !ech.tensor<[seq=4, past=4, key=8], f32>, !ech.tensor<[seq=4, past=4, key=8], f32>) -> (!ech.tensor<[seq=4, key=8], f32>, !ech.tensor<[seq=4], f32>, !ech.tensor<[seq=4], f32>)
}
