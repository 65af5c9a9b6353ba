package shellcmd

import "strings"

// buffer collects lines until a statement is complete. The zero value is empty.
type buffer struct {
	text strings.Builder
}

func (b *buffer) empty() bool { return strings.TrimSpace(b.text.String()) == "" }

// add adds a line and returns the statements that are complete: each ends with a
// semicolon outside of strings and comments, which is not part of it. A line that begins
// with a backslash where a statement may begin is a command.
func (b *buffer) add(line string, cql bool) []string {
	if command := strings.TrimSpace(line); b.empty() && strings.HasPrefix(command, `\`) {
		b.text.Reset()
		return []string{strings.TrimSuffix(command, ";")}
	}
	b.text.WriteString(line)
	all, rest := split(b.text.String(), cql)
	b.text.Reset()
	if strings.TrimSpace(rest) != "" {
		b.text.WriteString(rest)
	}
	return all
}

// rest returns what no semicolon has ended.
func (b *buffer) rest() string {
	rest := strings.TrimSpace(b.text.String())
	b.text.Reset()
	if blank(rest) {
		return ""
	}
	return rest
}

// blank reports whether a text has only comments.
func blank(text string) bool {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			return false
		}
	}
	return true
}

// split returns the statements of a text that are complete, and the rest. Strings end
// with their quote; in SQL a backslash escapes it, in CQL it is doubled, and there $$
// also quotes. Comments are -- to the end of a line, and in CQL // and /* */.
func split(text string, cql bool) (all []string, rest string) {
	begin := 0
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\'' || c == '"' || cql && c == '`':
			i = skipString(text, i+1, string(c), !cql)
		case cql && strings.HasPrefix(text[i:], "$$"):
			i = skipString(text, i+2, "$$", false)
		case strings.HasPrefix(text[i:], "--") || cql && strings.HasPrefix(text[i:], "//"):
			i = skipString(text, i, "\n", false)
		case cql && strings.HasPrefix(text[i:], "/*"):
			i = skipString(text, i+2, "*/", false)
		case c == ';':
			if one := strings.TrimSpace(text[begin:i]); !blank(one) {
				all = append(all, one)
			}
			i++
			begin = i
		default:
			i++
		}
	}
	return all, text[begin:]
}

// skipString returns the place after the next end, or that of the end of the text.
func skipString(text string, i int, end string, escapes bool) int {
	for i < len(text) {
		switch {
		case escapes && text[i] == '\\':
			i += 2
		case strings.HasPrefix(text[i:], end):
			return i + len(end)
		default:
			i++
		}
	}
	return len(text)
}

// fields splits the arguments of a command: quotes keep blanks together, and are
// dropped. JSON in brackets is one argument with its quotes.
func fields(text string) []string {
	var all []string
	for {
		text = strings.TrimLeft(text, " \t")
		if text == "" {
			return all
		}
		var end int
		switch text[0] {
		case '\'', '"':
			end = skipString(text, 1, text[:1], true)
			all = append(all, strings.Trim(text[:end], text[:1]))
		case '[', '{':
			end = skipJSON(text)
			all = append(all, text[:end])
		default:
			if end = strings.IndexAny(text, " \t"); end < 0 {
				end = len(text)
			}
			all = append(all, text[:end])
		}
		text = text[end:]
	}
}

// skipJSON returns the length of an array or object at the beginning of a text.
func skipJSON(text string) int {
	depth := 0
	for i := 0; i < len(text); {
		switch text[i] {
		case '"':
			i = skipString(text, i+1, `"`, true)
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return len(text)
}
