// RUN: echelon-opt --ech-differentiate --split-input-file --verify-diagnostics %s

// expected-error @+1 {{E0410: the model has no repeat, so there are no iterations to compute again, and recompute changes nothing; leave it out}}
module attributes {ech.recompute = {policy = "full"}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %l = ech.reduce sum %w over ["layer", "e"] : (!ech.tensor<[layer=4, e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// expected-error @+1 {{E0410: no repeat keeps anything that could be computed again, so recompute changes nothing; leave it out}}
module attributes {ech.recompute = {policy = "full"}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %n = ech.map add %xi, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// expected-error @+1 {{E0410: the backward pass does not read n, so keeping it changes nothing; leave it out}}
module attributes {ech.recompute = {policy = "keep", names = ["n"]}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %n = ech.map add %xi, %wi {ech.kept_as = ["n"]} : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// expected-error @+1 {{E0410: groups of 3 iterations do not divide layer = 4; groups can be of 1, 2}}
module attributes {ech.recompute = {policy = "every", every = 3, axis = "layer"}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %n = ech.map add %xi, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// expected-error @+1 {{E0410: one group of 4 would be all iterations of layer = 4, all of them kept at once; groups can be of 1, 2}}
module attributes {ech.recompute = {policy = "every", every = 4, axis = "layer"}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %n = ech.map add %xi, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}

// -----

// expected-error @+1 {{E0410: no repeat runs over depth; repeats run over layer}}
module attributes {ech.recompute = {policy = "every", every = 2, axis = "depth"}} {
ech.variable param @w : !ech.tensor<[layer=4, e=2], f32> = normal(0.0, 0.02)
ech.input @x 0 : !ech.tensor<[e=2], f32> below 0
ech.step @train {
  %w = ech.read @w : <[layer=4, e=2], f32>
  %x = ech.read @x : <[e=2], f32>
  %y = ech.repeat "layer" = 4 carry(%x : !ech.tensor<[e=2], f32>) slice(%w : !ech.tensor<[layer=4, e=2], f32>) -> (!ech.tensor<[e=2], f32>) {
  ^bb0(%xi: !ech.tensor<[e=2], f32>, %wi: !ech.tensor<[e=2], f32>):
    %n = ech.map add %xi, %wi : (!ech.tensor<[e=2], f32>, !ech.tensor<[e=2], f32>) -> !ech.tensor<[e=2], f32>
    ech.yield carry(%n : !ech.tensor<[e=2], f32>)
  }
  %l = ech.reduce sum %y over ["e"] : (!ech.tensor<[e=2], f32>) -> !ech.tensor<[], f32>
  ech.report loss "loss", %l : <[], f32>
}
}
