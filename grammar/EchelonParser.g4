// Syntax of Echelon. Rules follow the language reference, top to bottom.
// Loops instead of left recursion: a long sum is one node, so that depth comes from nesting alone.
parser grammar EchelonParser;
options { tokenVocab = EchelonLexer; }

file: (importDecl | block | model | device | link | cluster | train)* EOF;

importDecl: IMPORT (name | STRING) SEMI?;

// ---- models and blocks

model: MODEL name formals? body;
block: BLOCK name formals body;
formals: LPAREN (formal (COMMA formal)*)? RPAREN;
formal: name (COLON AXIS)? (ASSIGN expression)?;

body: LBRACE (statement SEMI?)* RBRACE;
statement
  : AXIS name (ASSIGN expression | LIKE name)?           # axisStatement
  | INPUT name axes COLON elementType                    # inputStatement
  | PARAM name axes TILDE method                         # paramStatement
  | STATE name axes ASSIGN expression                    # stateStatement
  | NEXT name ASSIGN expression                          # nextStatement
  | RANDOM name axes TILDE method                        # randomStatement
  | REPEAT ALONG name body                               # alongStatement
  | REPEAT name ASSIGN expression body                   # repeatStatement
  | IF branch (ELSE IF branch)* (ELSE body)?             # ifStatement
  | LOSS (name ASSIGN)? expression                       # lossStatement
  | METRIC name ASSIGN expression                        # metricStatement
  | RETURN expression                                    # returnStatement
  | name ASSIGN expression                               # assignStatement
  ;
branch: expression body;
axes: LBRACKET (name (COMMA name)*)? RBRACKET;
elementType: FLOAT | BOOL | INT BELOW name;

// ---- expressions

expression: conjunction (OR conjunction)*;
conjunction: negation (AND negation)*;
negation: NOT negation | comparison;
comparison: sum ((EQ | NE | LT | LE | GT | GE) sum)?;    // comparisons do not chain
sum: product ((PLUS | MINUS) product)*;
product: unary ((STAR | SLASH) unary)*;
unary: MINUS unary | power;
power: term (CARET unary)?;                             // from the right; -x^2 is -(x^2)
term: primary (LBRACKET place (COMMA place)* RBRACKET)*;
primary
  : quantity                                             # numberPrimary
  | STRING                                               # stringPrimary
  | TRUE                                                 # truePrimary
  | FALSE                                                # falsePrimary
  | path (arguments (AS name | WITH path)?)?             # pathPrimary
  | LPAREN expression (COMMA expression)* RPAREN         # parenPrimary
  ;
place
  : name ASSIGN value                                    # atPlace
  | name ARROW placeNames                                # renamePlace
  | LPAREN name (COMMA name)+ RPAREN ARROW name          # mergePlace
  | PLUS name (ASSIGN expression)?                       # expandPlace
  ;
placeNames: name | LPAREN name (COMMA name)+ RPAREN;
arguments: LPAREN (argument (COMMA argument)*)? RPAREN;
argument: (name ASSIGN)? value | quantity OF value;
value: expression (RANGE expression)?;
quantity: NUMBER (UNIT | RATE | PERCENT)? | QUANTITY;
path: name (DOT name)*;

// ---- devices and clusters

device: DEVICE name (ASSIGN path)? LBRACE (deviceClause SEMI?)* RBRACE;
deviceClause
  : MEMORY quantity AT quantity                          # memoryClause
  | PEAK setting (COMMA setting)*                        # peakClause
  | EFFICIENCY efficiency (COMMA efficiency)*            # efficiencyClause
  | PASSES setting (COMMA setting)*                      # passesClause
  | RESPONSE setting (COMMA setting)*                    # responseClause
  | CURVE curve                                          # curveClause
  | MEASURED measurement                                 # measuredClause
  ;
setting: name quantity;                                  // a peak's precision or a constant's name, and its figure
efficiency: name quantity | name name quantity;                        // of a kernel, or of a kernel in one precision
link: LINK name ASSIGN channel (LBRACE (linkPart SEMI?)* RBRACE)? SEMI?;
linkPart
  : AT speed                                             # speedClause
  | RESPONSE setting (COMMA setting)*                    # linkResponseClause
  | PROTOCOL name setting (COMMA setting)*               # protocolClause
  | CURVE curve                                          # linkCurveClause
  | MEASURED measurement                                 # linkMeasuredClause
  ;
curve: name (OVER NUMBER)? ASSIGN point (COMMA point)*;
point: quantity AT quantity;
measurement: STRING ON STRING (COMMA setting)*;          // when, and on what
channel: speed | path;
speed: (NUMBER TIMES_SIGN)? quantity COMMA quantity;
cluster: CLUSTER name (LBRACE (clusterClause SEMI?)* RBRACE | ASSIGN path arguments SEMI?);
clusterClause
  : NODES NUMBER OF NUMBER TIMES_SIGN path               # nodesClause
  | LINK channel                                         # linkClause
  | NETWORK channel                                      # networkClause
  | TIER name ASSIGN NUMBER OVER channel                 # tierClause
  | STORAGE quantity                                     # storageClause
  | MTBF quantity PER NODE                               # mtbfClause
  | PRICE quantity PER NODE                              # priceClause
  ;

// ---- training

train: TRAIN name LBRACE (clause SEMI?)* RBRACE;
clause
  : MODEL path arguments                                                          # modelClause
  | ON NAN (SKIP_WORD UP TO count | ROLL BACK | STOP)                             # onNanClause
  | ON path arguments?                                                            # onClause
  | DATA path arguments ARROW names (WITH method (COMMA method)*)?                # dataClause
  | BATCH count (IN MICRO BATCHES OF count)?                                      # batchClause
  | (STEPS | EPOCHS | SAMPLES) count                                              # lengthClause
  | UNTIL expression                                                              # untilClause
  | OPTIMIZE method onPatterns?                                                   # optimizeClause
  | AVERAGE method                                                                # averageClause
  | EVALUATE (name ON path arguments)? EVERY count STEPS (ON count BATCHES)?      # evaluateClause
  | SEED count                                                                    # seedClause
  | LAYOUT (AUTO | MESH meshAxes) (LBRACE (layoutClause SEMI?)* RBRACE)?          # layoutBlock
  | SYNC (EVERY STEP | method (OVER meshNames)?)                                  # syncClause
  | PRECISION precisionItem (COMMA precisionItem)*                                # precisionClause
  | COMPRESS name (OVER meshNames)? WITH method FEEDBACK?                         # compressClause
  | RECOMPUTE recomputePolicy                                                     # recomputeClause
  | CHECKPOINT (AUTO | EVERY period) (TO STRING)? (KEEP count)?                   # checkpointClause
  | EXPORT STRING mappings?                                                       # exportClause
  | RESTART UP TO count TIMES                                                     # restartClause
  | ELASTIC name FROM count TO count                                              # elasticClause
  | ADAPT method onPatterns                                                       # adaptClause
  | FREEZE patterns                                                               # freezeClause
  | QUANTIZE quantizeItem (COMMA quantizeItem)* (FROM STEP count)?                # quantizeClause
  | PRUNE method onPatterns?                                                      # pruneClause
  | START FROM STRING mappings? (NEW patterns)? (SKIP_WORD patterns)?             # startClause
  | SEARCH searchItem (COMMA searchItem)* (WITH method)?                          # searchClause
  | (MINIMIZE | MAXIMIZE) path                                                    # goalClause
  ;

meshAxes: LPAREN meshAxis (COMMA meshAxis)* RPAREN;
meshAxis: name ASSIGN (count | AUTO);
layoutClause
  : SPLIT splitAxes OVER meshNames splitOption*                                   # splitClause
  | STORE axisNames OVER meshNames                                                # storeClause
  | OFFLOAD axisNames TO (name | STRING)                                          # offloadClause
  | COLLECTIVE name OVER meshNames WITH method                                    # collectiveClause
  ;
splitAxes: chain (COMMA chain)* | LPAREN name (COMMA name)* RPAREN;
chain: name (THEN name)*;
splitOption: WITH method | AS (BALANCED | LPAREN count (COMMA count)* RPAREN);
meshNames: axisNames;
axisNames: name (COMMA name)* | LPAREN name (COMMA name)* RPAREN;  // parentheses where a comma would end the clause

precisionItem
  : (COMPUTE | PARAMS | REDUCE) NAME
  | KEEP LPAREN pattern (COMMA pattern)* RPAREN NAME
  | SCALE (NAME | NUMBER)
  | NAME
  ;
recomputePolicy: NONE | FULL | EVERY count name | KEEP names | AUTO (WITHIN quantity)?;
period: count STEPS | NUMBER (UNIT | RATE) | QUANTITY;
quantizeItem: name name (PER name)? (SYMMETRIC | ASYMMETRIC)?;
mappings: MAP LBRACE (mapping SEMI?)* RBRACE;
mapping: STRING (LBRACKET group (COMMA group)* RBRACKET)? ARROW names;
group: name | LPAREN name (COMMA name)* RPAREN;
searchItem: path IN (name arguments | LPAREN argument (COMMA argument)* RPAREN);

onPatterns: ON LPAREN pattern (COMMA pattern)* RPAREN;
patterns: pattern (COMMA pattern)* | LPAREN pattern (COMMA pattern)* RPAREN;
pattern: (name | STAR) (DOT (name | STAR))*;
method: (name | ONE_F_ONE_B) arguments?;     // a way of doing it: ring, topk(1%), lora(rank = 8)
names: path (COMMA path)* | nameList;
nameList: LPAREN path (COMMA path)* RPAREN;
count: NUMBER ((STAR | CARET) NUMBER)*;      // 500, 8 * 64, 2^16: no names, so that a clause's end is plain

// Any word that is neither reserved nor `not`, wherever a name is expected.
name
  : NAME | UNIT | TIMES_SIGN
  | IMPORT | MODEL | BLOCK | DEVICE | CLUSTER | TRAIN
  | LIKE | INPUT | INT | FLOAT | BOOL | BELOW | STATE | NEXT | RANDOM | ALONG | LOSS | METRIC | AND | OR
  | MEMORY | AT | PEAK | NODES | OF | LINK | NETWORK | TIER | STORAGE | MTBF | PRICE | PER | NODE
  | EFFICIENCY | PASSES | RESPONSE | PROTOCOL | CURVE | MEASURED
  | ON | DATA | BATCH | STEPS | EPOCHS | SAMPLES | UNTIL | OPTIMIZE | AVERAGE | EVALUATE | SEED | LAYOUT | SYNC
  | PRECISION | COMPRESS | RECOMPUTE | CHECKPOINT | EXPORT | RESTART | ELASTIC | ADAPT | FREEZE | QUANTIZE | PRUNE
  | START | SEARCH | MINIMIZE | MAXIMIZE
  | SPLIT | STORE | OFFLOAD | COLLECTIVE | MESH | THEN | BALANCED | AUTO | NONE | FULL | EVERY | STEP | IN | MICRO
  | BATCHES | OVER | WITH | TO | FROM | WITHIN | KEEP | UP | TIMES | FEEDBACK | MAP | NEW | SKIP_WORD | NAN | ROLL | BACK
  | STOP | COMPUTE | PARAMS | REDUCE | SCALE | SYMMETRIC | ASYMMETRIC
  ;
