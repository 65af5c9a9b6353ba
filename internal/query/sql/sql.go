// Package sql is the syntax of the query language: [Parse] turns text into a tree,
// and [Select.String] turns a tree into text.
//
// A [Select] holds clauses, and a clause holds expressions, each an [Expr]. [Lexer]
// splits text into tokens for programs that need no tree. [NewError] words the
// errors of a text as clients expect them; the packages that check what a query
// means report through it too.
//
// # Invariants
//
//   - Parse(q.String()) returns a tree equal to q, positions aside. As in the planner's
//     texts, a whole number loses its point, and -0.0 its sign.
//   - A tree shares no node and does not change after Parse.
//   - The depth of a tree is bounded, whatever the text.
//
// The package knows no function names, no documents and no indexes. It does not
// resolve identifiers and evaluates nothing: package query does.
//
// Page: docs/query.md.
package sql
