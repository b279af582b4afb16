// Tokens of Echelon. White space and line ends separate tokens and mean nothing else.
// Only `as axis else false if param repeat return true` are reserved. Every other word here is contextual:
// the parser's rule `name` takes it back wherever a name is expected.
lexer grammar EchelonLexer;

// top level
IMPORT: 'import'; MODEL: 'model'; BLOCK: 'block'; DEVICE: 'device'; CLUSTER: 'cluster'; TRAIN: 'train';

// models and blocks
AXIS: 'axis'; LIKE: 'like'; INPUT: 'input'; INT: 'int'; FLOAT: 'float'; BOOL: 'bool'; BELOW: 'below'; PARAM: 'param';
STATE: 'state'; NEXT: 'next'; RANDOM: 'random'; REPEAT: 'repeat'; ALONG: 'along'; IF: 'if'; ELSE: 'else';
RETURN: 'return'; LOSS: 'loss'; METRIC: 'metric'; AS: 'as'; AND: 'and'; OR: 'or'; NOT: 'not'; TRUE: 'true'; FALSE: 'false';

// devices and clusters
MEMORY: 'memory'; AT: 'at'; PEAK: 'peak'; NODES: 'nodes'; OF: 'of'; TIMES_SIGN: 'x'; LINK: 'link'; NETWORK: 'network';
TIER: 'tier'; STORAGE: 'storage'; MTBF: 'mtbf'; PRICE: 'price'; PER: 'per'; NODE: 'node'; EFFICIENCY: 'efficiency';
PASSES: 'passes'; RESPONSE: 'response'; PROTOCOL: 'protocol'; CURVE: 'curve'; MEASURED: 'measured';

// train: words that begin a clause
ON: 'on'; DATA: 'data'; BATCH: 'batch'; STEPS: 'steps'; EPOCHS: 'epochs'; SAMPLES: 'samples'; UNTIL: 'until';
OPTIMIZE: 'optimize'; AVERAGE: 'average'; EVALUATE: 'evaluate'; SEED: 'seed'; LAYOUT: 'layout'; SYNC: 'sync';
PRECISION: 'precision'; COMPRESS: 'compress'; RECOMPUTE: 'recompute'; CHECKPOINT: 'checkpoint'; EXPORT: 'export';
RESTART: 'restart'; ELASTIC: 'elastic'; ADAPT: 'adapt'; FREEZE: 'freeze'; QUANTIZE: 'quantize'; PRUNE: 'prune';
START: 'start'; SEARCH: 'search'; MINIMIZE: 'minimize'; MAXIMIZE: 'maximize';

// train: layout statements, and words inside clauses
SPLIT: 'split'; STORE: 'store'; OFFLOAD: 'offload'; COLLECTIVE: 'collective'; MESH: 'mesh'; THEN: 'then';
BALANCED: 'balanced'; AUTO: 'auto'; NONE: 'none'; FULL: 'full'; EVERY: 'every'; STEP: 'step'; IN: 'in'; MICRO: 'micro';
BATCHES: 'batches'; OVER: 'over'; WITH: 'with'; TO: 'to'; FROM: 'from'; WITHIN: 'within'; KEEP: 'keep'; UP: 'up';
TIMES: 'times'; FEEDBACK: 'feedback'; MAP: 'map'; NEW: 'new'; SKIP_WORD: 'skip'; NAN: 'nan'; ROLL: 'roll'; BACK: 'back';
STOP: 'stop'; COMPUTE: 'compute'; PARAMS: 'params'; REDUCE: 'reduce'; SCALE: 'scale'; SYMMETRIC: 'symmetric';
ASYMMETRIC: 'asymmetric';

// Units. The words among them are units only behind a number on the same line (the token pass sees to it) and names
// elsewhere (`h = relu(x)`); rates are single tokens and never names.
UNIT: [KMGT]? 'B' | [KMGT] 'iB' | [num]? 's' | 'min' | 'h' | 'd';
RATE: [KMGT] [Bb] '/s' | [GTP] 'FLOP/s' | '$/h';
PERCENT: '%';

NUMBER: DIGITS ('.' DIGITS)? ([eE] [+-]? [0-9]+)?;
QUANTITY: NUMBER (UNIT | RATE);             // `80GB`; with a space between, `80 GB`, the parser joins the two
ONE_F_ONE_B: '1f1b';                        // the one word that begins with a digit
STRING: '"' (~["\\\r\n] | '\\' ["\\nt])* '"';
NAME: [A-Za-z_] [A-Za-z0-9_]*;

LBRACE: '{'; RBRACE: '}'; LPAREN: '('; RPAREN: ')'; LBRACKET: '['; RBRACKET: ']';
COMMA: ','; SEMI: ';'; COLON: ':'; TILDE: '~'; DOT: '.'; RANGE: '..'; ARROW: '->';
PLUS: '+'; MINUS: '-'; STAR: '*'; SLASH: '/'; CARET: '^';
EQ: '=='; NE: '!='; LE: '<='; GE: '>='; LT: '<'; GT: '>'; ASSIGN: '=';

COMMENT: '#' ~[\r\n]* -> channel(HIDDEN);   // kept for `echelon fmt`
SPACE: [ \t\r\n]+ -> skip;

// What is wrong in a way the lexer can name; the parser takes none of these.
BAD_NUMBER: DIGITS ('.' DIGITS)? [A-Za-z_] [A-Za-z0-9_]*;
BAD_RATE: ([KMGT] [Bb] | [GTP] 'FLOP' | '$') '/' [A-Za-z_] [A-Za-z0-9_]*;
BAD_ESCAPE: '"' (~["\\\r\n] | '\\' ~[\r\n])* '"';
UNCLOSED_STRING: '"' (~["\\\r\n] | '\\' ~[\r\n])*;
BAD_CHARACTER: .;

fragment DIGITS: [0-9]+ ('_' [0-9]+)*;
