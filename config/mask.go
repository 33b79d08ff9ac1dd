package config

import (
	"regexp"
	"strings"

	"kusto-agent/kusto"
)

// A line is masked by its text and not by what the parser made of it: the
// line to show may be one that the parser did not understand, and the key may
// be misspelt.
var (
	// secretWord finds a word that names a secret, where a key could stand.
	secretWord = regexp.MustCompile(`(?i)(?:^|[\s{,\[?"'&#-])([\w-]*(?:secret|passw|pwd|token|credential|api_?key|app_?key|access_?key)[\w-]*|sig)["']?`)
	// userInfo finds the user and password of a URL, with any sign but a space.
	userInfo = regexp.MustCompile(`(://)\S*@`)
)

// maskLine is a line that does not go on with a secret of the line before,
// with whatever in it may be one replaced.
func maskLine(line string) string {
	line = userInfo.ReplaceAllString(line, "${1}"+kusto.Mask+"@") // first: a word in it may name a secret
	if key, found := findSecret(line); found && strings.TrimSpace(line[key.value:]) != "" {
		line = line[:key.value] + " " + kusto.Mask
	}
	return line
}

// hiddenLines tells of each line whether it goes on with a secret that began
// on a line before.
func hiddenLines(lines []string) []bool {
	hidden := make([]bool, len(lines))
	var open openSecret
	for i, line := range lines {
		hidden[i] = open.covers(line)
		open = open.after(line)
	}
	return hidden
}

// secretKey is the place of a word that names a secret.
type secretKey struct {
	value  int // where its value begins
	indent int // lines indented deeper belong to the value
}

// findSecret finds the first key of line whose value is not to be shown. Names
// of files are no secrets.
func findSecret(line string) (secretKey, bool) {
	if !mayNameSecret(line) {
		return secretKey{}, false
	}
	for _, m := range secretWord.FindAllStringSubmatchIndex(line, -1) {
		if strings.HasSuffix(strings.ToLower(line[m[2]:m[3]]), "file") {
			continue
		}
		before := strings.TrimRight(line[:m[2]], ` "'`)
		after := strings.TrimLeft(line[m[1]:], " \t")
		key := secretKey{value: m[1], indent: m[2]}
		if strings.HasPrefix(after, ":") || strings.HasPrefix(after, "=") {
			key.value = len(line) - len(after) + 1
		} else if strings.HasSuffix(before, ":") || after != "" && strings.ContainsRune(",}]", rune(after[0])) {
			continue // a value, as in method: client_secret
		}
		if strings.Trim(before, " -?") != "" {
			key.indent = indentOf(line) // not the first of its line
		}
		return key, true
	}
	return secretKey{}, false
}

// mayNameSecret is a cheap look for what secretWord finds: most lines of a file
// name no secret, and all of them are looked at.
func mayNameSecret(line string) bool {
	lower := strings.ToLower(line)
	for _, part := range []string{"secret", "passw", "pwd", "token", "credential", "key", "sig"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return false
}

// openSecret follows a secret from line to line.
type openSecret struct {
	open   bool
	indent int
	quote  byte // that the value has opened, if any
}

func (v openSecret) covers(line string) bool {
	if !v.open {
		return false
	}
	trimmed := strings.TrimSpace(line)
	return v.quote != 0 || trimmed == "" || line[0] == '\t' || indentOf(line) > v.indent || strings.HasPrefix(trimmed, ":")
}

// after is the state behind a line.
func (v openSecret) after(line string) openSecret {
	if v.covers(line) {
		if v.quote != 0 && strings.IndexByte(line, v.quote) >= 0 {
			v.quote = 0
		}
		return v
	}
	if len(line) > maxShown {
		return openSecret{open: true, indent: indentOf(line)} // not searched: it may end in one
	}
	key, found := findSecret(line)
	if !found || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return openSecret{}
	}
	v = openSecret{open: true, indent: key.indent}
	value := strings.TrimSpace(line[key.value:])
	if value != "" && (value[0] == '"' || value[0] == '\'') && strings.IndexByte(value[1:], value[0]) < 0 {
		v.quote = value[0]
	}
	return v
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
