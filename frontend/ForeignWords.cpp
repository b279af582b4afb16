#include "frontend/ForeignWords.h"
#include <map>

namespace echelon::frontend {

std::string foreignWord(std::string_view word) {
  static const std::string block =
                               "a model is written model NAME(ARGUMENTS) { … }, a part of one block NAME(ARGUMENTS) "
                               "{ … return VALUE }",
                           loop = "a loop is written repeat NAME = COUNT { … }",
                           lr = "the learning rate is an argument: optimize sgd(lr = 0.1)",
                           schedule = "a schedule goes where the rate does: optimize sgd(lr = cosine(peak = 0.1, "
                                      "warmup = 100))",
                           ofOptimizer = "that is an argument of the optimizer, as in optimize adamw(lr = 1e-3, decay "
                                         "= 0.1, clip = 1)",
                           ofModel = "losses and metrics belong in the model: loss VALUE, metric NAME = VALUE",
                           ranks =
                               "how many ranks there are is said before the block, cluster here = local(ranks = 2), "
                               "and used by its layout, mesh(dp = 2)",
                           product = "products that sum are dot(a, b, over = AXES)",
                           shape = "axes have names: x[(a, b) -> c] merges two, x[c -> (a, b)] splits one",
                           order = "axes have names, so their order means nothing; x[a -> b] renames one",
                           look = "a look-up is TABLE[AXIS = INDEX], as in wte[vocab = tokens]",
                           square = "write mean((a - b) ^ 2)";
  static const std::map<std::string, std::string, std::less<>> words = {
      {"for", loop},
      {"while", loop},
      {"def", block},
      {"class", block},
      {"fn", block},
      {"function", block},
      {"let", "write NAME = …"},
      {"var", "write NAME = …"},
      {"const", "write NAME = …"},
      {"lr", lr},
      {"learning_rate", lr},
      {"schedule", schedule},
      {"scheduler", schedule},
      {"warmup", schedule},
      {"lr_scheduler", schedule},
      {"momentum", ofOptimizer},
      {"weight_decay", ofOptimizer},
      {"clip", ofOptimizer},
      {"grad_clip", ofOptimizer},
      {"betas", ofOptimizer},
      {"metrics", ofModel},
      {"loss", ofModel},
      {"metric", ofModel},
      {"batch_size", "write batch 64"},
      {"num_epochs", "write epochs 10"},
      {"max_steps", "write steps 1000"},
      {"dataset", "write data SOURCE(…) -> INPUTS"},
      {"validate", "write evaluate every 100 steps"},
      {"validation", "write evaluate every 100 steps"},
      {"eval", "write evaluate every 100 steps"},
      {"save", "write checkpoint every 100 steps"},
      {"resume", "that is asked for by echelon run SPEC --resume"},
      {"mesh", "write layout mesh(dp = 2) { split batch over dp }"},
      {"device", ranks},
      {"devices", ranks},
      {"gpus", ranks},
      {"gpu", ranks},
      {"ranks", ranks},
      {"nodes", ranks},
      {"world_size", ranks},
      {"early_stopping", "leave it out: a run ends after its length, as in steps 1000; evaluate every 100 steps tells "
                         "how it does on the way, and checkpoint every 100 steps keeps it"},
      {"matmul", product},
      {"mm", product},
      {"bmm", product},
      {"einsum", product},
      {"reshape", shape},
      {"view", shape},
      {"flatten", shape},
      {"transpose", order},
      {"permute", order},
      {"unsqueeze", "x[+ AXIS] adds an axis"},
      {"expand", "x[+ AXIS] adds an axis"},
      {"squeeze", "x[AXIS = 0] takes an axis of size 1 away"},
      {"cat", "write concat(a, b, over = AXIS)"},
      {"stack", "write concat(a[+ AXIS = 1], b[+ AXIS = 1], over = AXIS)"},
      {"embedding", look},
      {"gather", look},
      {"nn.embedding", look},
      {"mse", square},
      {"mse_loss", square},
      {"nn.dense", "write nn.linear(x, from, to)"},
      {"nn.fc", "write nn.linear(x, from, to)"},
      {"nn.conv2d", "write nn.conv3x3(x, from, to), or conv(x, w, over = AXES, window = AXES)"},
      {"nn.maxpool2d", "write maxpool(x, window = AXES, size = 2, stride = 2)"},
      {"shuffle", "training data comes shuffled in any case"}};
  auto it = words.find(word);
  return it == words.end() ? "" : "; " + it->second;
}

} // namespace echelon::frontend
