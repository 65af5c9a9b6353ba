package cql

// kind is the kind of a token.
type kind uint8

// The kinds that are no keywords, and then the keywords in four groups: the order of
// the groups decides where a keyword may be a name.
const (
	tEOF kind = iota
	tIdent
	tQuoted
	tEmptyQuoted
	tString
	tInteger
	tFloat
	tBool
	tDurationLiteral
	tUUIDLiteral
	tHex
	tQuestion
	tNegativeNaN
	tNegativeInfinity
	tParenOpen
	tParenClose
	tBracketOpen
	tBracketClose
	tBraceOpen
	tBraceClose
	tComma
	tSemicolon
	tColon
	tDot
	tRange
	tPlus
	tMinus
	tStar
	tSlash
	tPercent
	tEqual
	tNotEqual
	tLess
	tLessEqual
	tGreater
	tGreaterEqual
	tPlusEqual
	tMinusEqual
	tExpr

	// Keywords that every name may be.
	kKeys
	kAs
	kCluster
	kClustering
	kCompact
	kStorage
	kTables
	kType
	kTypes
	kValues
	kMap
	kList
	kFiltering
	kPermission
	kPermissions
	kKeyspaces
	kAll
	kUser
	kUsers
	kRole
	kRoles
	kSuperuser
	kNosuperuser
	kLogin
	kNologin
	kOptions
	kPassword
	kHashed
	kExists
	kCustom
	kTrigger
	kContains
	kInternals
	kOnly
	kStatic
	kFrozen
	kTuple
	kFunction
	kFunctions
	kAggregate
	kAggregates
	kSfunc
	kStype
	kFinalfunc
	kInitcond
	kReturns
	kLanguage
	kCalled
	kInput
	kLike
	kPer
	kPartition
	kGroup
	kDatacenters
	kAccess
	kDefault
	kMbean
	kMbeans
	kReplace
	kUnset

	// Names of native types: every name but that of a user type may be one.
	kAscii
	kBigint
	kBlob
	kBoolean
	kCounter
	kDecimal
	kDouble
	kDuration
	kFloat
	kInet
	kInt
	kSmallint
	kText
	kTimestamp
	kTinyint
	kUuid
	kVarchar
	kVarint
	kTimeuuid
	kDate
	kTime

	// Keywords that names of columns, tables and keyspaces may be, but those of functions not.
	kTtl
	kCount
	kWritetime
	kKey
	kCast
	kJson
	kDistinct

	// Reserved words: a name that is one needs quotes.
	kSelect
	kFrom
	kWhere
	kAnd
	kEntries
	kFull
	kInsert
	kUpdate
	kWith
	kLimit
	kUsing
	kUse
	kSet
	kBegin
	kUnlogged
	kBatch
	kApply
	kTruncate
	kDelete
	kIn
	kCreate
	kKeyspace
	kColumnfamily
	kMaterialized
	kView
	kIndex
	kOn
	kTo
	kDrop
	kPrimary
	kInto
	kAlter
	kRename
	kAdd
	kOrder
	kBy
	kAsc
	kDesc
	kAllow
	kIf
	kIs
	kGrant
	kOf
	kRevoke
	kModify
	kAuthorize
	kDescribe
	kExecute
	kNorecursive
	kToken
	kNull
	kNot
	kOr
	kNan
	kInfinity

	kindCount
)

// The first kind of each group of keywords.
const (
	firstBasic    = kKeys
	firstNative   = kAscii
	firstExtra    = kTtl
	firstReserved = kSelect
)

// kindNames holds how an error names the kind of the token that it expects.
var kindNames = [kindCount]string{
	tEOF:              "EOF",
	tIdent:            "IDENT",
	tQuoted:           "QUOTED_NAME",
	tEmptyQuoted:      "EMPTY_QUOTED_NAME",
	tString:           "STRING_LITERAL",
	tInteger:          "INTEGER",
	tFloat:            "FLOAT",
	tBool:             "BOOLEAN",
	tDurationLiteral:  "DURATION",
	tUUIDLiteral:      "UUID",
	tHex:              "HEXNUMBER",
	tQuestion:         "QMARK",
	tNegativeNaN:      "K_NEGATIVE_NAN",
	tNegativeInfinity: "K_NEGATIVE_INFINITY",
	tParenOpen:        "'('",
	tParenClose:       "')'",
	tBracketOpen:      "'['",
	tBracketClose:     "']'",
	tBraceOpen:        "'{'",
	tBraceClose:       "'}'",
	tComma:            "','",
	tSemicolon:        "';'",
	tColon:            "':'",
	tDot:              "'.'",
	tRange:            "'..'",
	tPlus:             "'+'",
	tMinus:            "'-'",
	tStar:             "'*'",
	tSlash:            "'/'",
	tPercent:          "'%'",
	tEqual:            "'='",
	tNotEqual:         "'!='",
	tLess:             "'<'",
	tLessEqual:        "'<='",
	tGreater:          "'>'",
	tGreaterEqual:     "'>='",
	tPlusEqual:        "'+='",
	tMinusEqual:       "'-='",
	tExpr:             "'expr('",
	kKeys:             "K_KEYS",
	kAs:               "K_AS",
	kCluster:          "K_CLUSTER",
	kClustering:       "K_CLUSTERING",
	kCompact:          "K_COMPACT",
	kStorage:          "K_STORAGE",
	kTables:           "K_TABLES",
	kType:             "K_TYPE",
	kTypes:            "K_TYPES",
	kValues:           "K_VALUES",
	kMap:              "K_MAP",
	kList:             "K_LIST",
	kFiltering:        "K_FILTERING",
	kPermission:       "K_PERMISSION",
	kPermissions:      "K_PERMISSIONS",
	kKeyspaces:        "K_KEYSPACES",
	kAll:              "K_ALL",
	kUser:             "K_USER",
	kUsers:            "K_USERS",
	kRole:             "K_ROLE",
	kRoles:            "K_ROLES",
	kSuperuser:        "K_SUPERUSER",
	kNosuperuser:      "K_NOSUPERUSER",
	kLogin:            "K_LOGIN",
	kNologin:          "K_NOLOGIN",
	kOptions:          "K_OPTIONS",
	kPassword:         "K_PASSWORD",
	kHashed:           "K_HASHED",
	kExists:           "K_EXISTS",
	kCustom:           "K_CUSTOM",
	kTrigger:          "K_TRIGGER",
	kContains:         "K_CONTAINS",
	kInternals:        "K_INTERNALS",
	kOnly:             "K_ONLY",
	kStatic:           "K_STATIC",
	kFrozen:           "K_FROZEN",
	kTuple:            "K_TUPLE",
	kFunction:         "K_FUNCTION",
	kFunctions:        "K_FUNCTIONS",
	kAggregate:        "K_AGGREGATE",
	kAggregates:       "K_AGGREGATES",
	kSfunc:            "K_SFUNC",
	kStype:            "K_STYPE",
	kFinalfunc:        "K_FINALFUNC",
	kInitcond:         "K_INITCOND",
	kReturns:          "K_RETURNS",
	kLanguage:         "K_LANGUAGE",
	kCalled:           "K_CALLED",
	kInput:            "K_INPUT",
	kLike:             "K_LIKE",
	kPer:              "K_PER",
	kPartition:        "K_PARTITION",
	kGroup:            "K_GROUP",
	kDatacenters:      "K_DATACENTERS",
	kAccess:           "K_ACCESS",
	kDefault:          "K_DEFAULT",
	kMbean:            "K_MBEAN",
	kMbeans:           "K_MBEANS",
	kReplace:          "K_REPLACE",
	kUnset:            "K_UNSET",
	kAscii:            "K_ASCII",
	kBigint:           "K_BIGINT",
	kBlob:             "K_BLOB",
	kBoolean:          "K_BOOLEAN",
	kCounter:          "K_COUNTER",
	kDecimal:          "K_DECIMAL",
	kDouble:           "K_DOUBLE",
	kDuration:         "K_DURATION",
	kFloat:            "K_FLOAT",
	kInet:             "K_INET",
	kInt:              "K_INT",
	kSmallint:         "K_SMALLINT",
	kText:             "K_TEXT",
	kTimestamp:        "K_TIMESTAMP",
	kTinyint:          "K_TINYINT",
	kUuid:             "K_UUID",
	kVarchar:          "K_VARCHAR",
	kVarint:           "K_VARINT",
	kTimeuuid:         "K_TIMEUUID",
	kDate:             "K_DATE",
	kTime:             "K_TIME",
	kTtl:              "K_TTL",
	kCount:            "K_COUNT",
	kWritetime:        "K_WRITETIME",
	kKey:              "K_KEY",
	kCast:             "K_CAST",
	kJson:             "K_JSON",
	kDistinct:         "K_DISTINCT",
	kSelect:           "K_SELECT",
	kFrom:             "K_FROM",
	kWhere:            "K_WHERE",
	kAnd:              "K_AND",
	kEntries:          "K_ENTRIES",
	kFull:             "K_FULL",
	kInsert:           "K_INSERT",
	kUpdate:           "K_UPDATE",
	kWith:             "K_WITH",
	kLimit:            "K_LIMIT",
	kUsing:            "K_USING",
	kUse:              "K_USE",
	kSet:              "K_SET",
	kBegin:            "K_BEGIN",
	kUnlogged:         "K_UNLOGGED",
	kBatch:            "K_BATCH",
	kApply:            "K_APPLY",
	kTruncate:         "K_TRUNCATE",
	kDelete:           "K_DELETE",
	kIn:               "K_IN",
	kCreate:           "K_CREATE",
	kKeyspace:         "K_KEYSPACE",
	kColumnfamily:     "K_COLUMNFAMILY",
	kMaterialized:     "K_MATERIALIZED",
	kView:             "K_VIEW",
	kIndex:            "K_INDEX",
	kOn:               "K_ON",
	kTo:               "K_TO",
	kDrop:             "K_DROP",
	kPrimary:          "K_PRIMARY",
	kInto:             "K_INTO",
	kAlter:            "K_ALTER",
	kRename:           "K_RENAME",
	kAdd:              "K_ADD",
	kOrder:            "K_ORDER",
	kBy:               "K_BY",
	kAsc:              "K_ASC",
	kDesc:             "K_DESC",
	kAllow:            "K_ALLOW",
	kIf:               "K_IF",
	kIs:               "K_IS",
	kGrant:            "K_GRANT",
	kOf:               "K_OF",
	kRevoke:           "K_REVOKE",
	kModify:           "K_MODIFY",
	kAuthorize:        "K_AUTHORIZE",
	kDescribe:         "K_DESCRIBE",
	kExecute:          "K_EXECUTE",
	kNorecursive:      "K_NORECURSIVE",
	kToken:            "K_TOKEN",
	kNull:             "K_NULL",
	kNot:              "K_NOT",
	kOr:               "K_OR",
	kNan:              "K_POSITIVE_NAN",
	kInfinity:         "K_POSITIVE_INFINITY",
}

// keywords holds the kind of each keyword, by its text in lower case.
var keywords = map[string]kind{
	"keys":         kKeys,
	"as":           kAs,
	"cluster":      kCluster,
	"clustering":   kClustering,
	"compact":      kCompact,
	"storage":      kStorage,
	"tables":       kTables,
	"type":         kType,
	"types":        kTypes,
	"values":       kValues,
	"map":          kMap,
	"list":         kList,
	"filtering":    kFiltering,
	"permission":   kPermission,
	"permissions":  kPermissions,
	"keyspaces":    kKeyspaces,
	"all":          kAll,
	"user":         kUser,
	"users":        kUsers,
	"role":         kRole,
	"roles":        kRoles,
	"superuser":    kSuperuser,
	"nosuperuser":  kNosuperuser,
	"login":        kLogin,
	"nologin":      kNologin,
	"options":      kOptions,
	"password":     kPassword,
	"hashed":       kHashed,
	"exists":       kExists,
	"custom":       kCustom,
	"trigger":      kTrigger,
	"contains":     kContains,
	"internals":    kInternals,
	"only":         kOnly,
	"static":       kStatic,
	"frozen":       kFrozen,
	"tuple":        kTuple,
	"function":     kFunction,
	"functions":    kFunctions,
	"aggregate":    kAggregate,
	"aggregates":   kAggregates,
	"sfunc":        kSfunc,
	"stype":        kStype,
	"finalfunc":    kFinalfunc,
	"initcond":     kInitcond,
	"returns":      kReturns,
	"language":     kLanguage,
	"called":       kCalled,
	"input":        kInput,
	"like":         kLike,
	"per":          kPer,
	"partition":    kPartition,
	"group":        kGroup,
	"datacenters":  kDatacenters,
	"access":       kAccess,
	"default":      kDefault,
	"mbean":        kMbean,
	"mbeans":       kMbeans,
	"replace":      kReplace,
	"unset":        kUnset,
	"ascii":        kAscii,
	"bigint":       kBigint,
	"blob":         kBlob,
	"boolean":      kBoolean,
	"counter":      kCounter,
	"decimal":      kDecimal,
	"double":       kDouble,
	"duration":     kDuration,
	"float":        kFloat,
	"inet":         kInet,
	"int":          kInt,
	"smallint":     kSmallint,
	"text":         kText,
	"timestamp":    kTimestamp,
	"tinyint":      kTinyint,
	"uuid":         kUuid,
	"varchar":      kVarchar,
	"varint":       kVarint,
	"timeuuid":     kTimeuuid,
	"date":         kDate,
	"time":         kTime,
	"ttl":          kTtl,
	"count":        kCount,
	"writetime":    kWritetime,
	"key":          kKey,
	"cast":         kCast,
	"json":         kJson,
	"distinct":     kDistinct,
	"select":       kSelect,
	"from":         kFrom,
	"where":        kWhere,
	"and":          kAnd,
	"entries":      kEntries,
	"full":         kFull,
	"insert":       kInsert,
	"update":       kUpdate,
	"with":         kWith,
	"limit":        kLimit,
	"using":        kUsing,
	"use":          kUse,
	"set":          kSet,
	"begin":        kBegin,
	"unlogged":     kUnlogged,
	"batch":        kBatch,
	"apply":        kApply,
	"truncate":     kTruncate,
	"delete":       kDelete,
	"in":           kIn,
	"create":       kCreate,
	"keyspace":     kKeyspace,
	"columnfamily": kColumnfamily,
	"materialized": kMaterialized,
	"view":         kView,
	"index":        kIndex,
	"on":           kOn,
	"to":           kTo,
	"drop":         kDrop,
	"primary":      kPrimary,
	"into":         kInto,
	"alter":        kAlter,
	"rename":       kRename,
	"add":          kAdd,
	"order":        kOrder,
	"by":           kBy,
	"asc":          kAsc,
	"desc":         kDesc,
	"allow":        kAllow,
	"if":           kIf,
	"is":           kIs,
	"grant":        kGrant,
	"of":           kOf,
	"revoke":       kRevoke,
	"modify":       kModify,
	"authorize":    kAuthorize,
	"describe":     kDescribe,
	"execute":      kExecute,
	"norecursive":  kNorecursive,
	"token":        kToken,
	"null":         kNull,
	"not":          kNot,
	"or":           kOr,
	"nan":          kNan,
	"infinity":     kInfinity,
	"schema":       kKeyspace, "table": kColumnfamily, "columnfamilies": kTables,
	"true": tBool, "false": tBool,
}

// longestKeyword is the length of the longest keyword.
const longestKeyword = 12
