package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	"kusto-agent/internal/kusto"
	"kusto-agent/internal/kusto/credential"
)

// A line is masked by its text and not by what the parser made of it: the
// line to show may be one that the parser did not understand, and the key may
// be misspelt.
var (
	// secretWord finds a word that names a secret, where a key could stand.
	secretWord = regexp.MustCompile(`(?i)(?:^|[\s{,\[?"'&#-])([\w-]*(?:secret|passw|pwd|token|credential|api_?key|app_?key|access_?key)[\w-]*|sig)["']?`)
	// anyKey finds a key with the sign behind it.
	anyKey = regexp.MustCompile(`(?:^|[\s{,\[?"'-])([\w-]+)["']?[ \t]*(?::(?:[ \t\r]|$)|=)`)
	// userInfo finds the user and password of a URL, with any sign but a space.
	userInfo = regexp.MustCompile(`(://)\S*@`)
	// bareUserInfo finds a user and password without a scheme before them.
	bareUserInfo = regexp.MustCompile(`(^|[\s"'\[{,])(?://)?[^\s"'\[{,:]*(?::/?[^/\s]|%3[aA])\S*(?:@|%40)`)
	// proxyKey finds the key of a proxy, with the sign behind it.
	proxyKey = regexp.MustCompile(`(?i)(?:^|[\s{,?"'-])[\w-]*proxy["']?[ \t]*:`)
	// plainProxy is the URL of a proxy in which no secret can hide.
	plainProxy = regexp.MustCompile(`^(?:["']?[A-Za-z][\w+.-]*://(?:\*{4}@)?(?:[\w.-]+|\[[0-9a-fA-F:.]+\])(?::\d{1,5})?/?["']?)?[ \t\r]*(?:[#,}].*)?$`)
)

// maskLine returns a line with everything that may be a secret replaced: users and passwords in
// URLs, proxies, and what follows a key that names a secret, also if the key is misspelt. It must
// not be used for a line that continues a secret of the line before.
func maskLine(line string) string {
	line = userInfo.ReplaceAllString(line, "${1}"+kusto.Mask+"@") // first: a word in it may name a secret
	line = maskProxyIn(line)
	line = bareUserInfo.ReplaceAllString(line, "${1}"+kusto.Mask+"@")
	key, found := findSecret(line)
	if near, is := findNear(line); is && (!found || near < key.value) {
		key.value, found = near, true
	}
	if found && strings.TrimSpace(line[key.value:]) != "" {
		line = line[:key.value] + " " + kusto.Mask
	}
	return line
}

// maskProxyIn masks the value of the key proxy in a line, unless it is a plain URL: in anything
// else it is not known where a password could be.
func maskProxyIn(line string) string {
	at := proxyKey.FindStringIndex(line)
	if at == nil || plainProxy.MatchString(strings.TrimLeft(line[at[1]:], " \t")) {
		return line
	}
	return line[:at[1]] + " " + kusto.Mask
}

// maskAuth masks a line of the section auth, which holds credentials, or one that begins it: from
// the first value that is not known to be public, to the end of the section if that is on this line
// in braces, and otherwise to the end of the line.
func maskAuth(line string) string {
	from, to := 0, len(line)
	if at := authKey.FindStringIndex(line); at != nil {
		from = at[1]
		if open := strings.IndexByte(line[from:], '{'); open >= 0 {
			inside := line[from+open:]
			if shut := strings.IndexByte(inside, '}'); shut >= 0 && !strings.ContainsAny(inside[:shut], `"'`) {
				to = from + open + shut
			}
		}
	}
	if cut := publicLength(line[from:to]); cut < to-from {
		return strings.TrimRight(line[:from+cut], " \t") + " " + kusto.Mask + line[to:]
	}
	return line
}

// publicLength returns how many bytes at the beginning of part, a part of the section auth in one
// line, may be shown. It ends before text that belongs to no key, before a key that may be a secret
// in the wrong place, and before a value that is not public.
func publicLength(part string) int {
	keys := anyKey.FindAllStringSubmatchIndex(part, -1)
	first := len(part)
	if len(keys) > 0 {
		first = keys[0][0]
	}
	if words := strings.Trim(part[:first], " \t\r{},-\"'?"); words != "" && words[0] != '#' {
		return strings.Index(part, words)
	}
	for i, k := range keys {
		end := len(part)
		if i+1 < len(keys) {
			end = keys[i+1][0]
		}
		key, word := part[k[2]:k[3]], strings.Trim(part[k[1]:end], " \t\r{},\"'")
		if !isWord(key) {
			return k[2]
		}
		if word != "" && word[0] != '#' && !isPublic(key, word) {
			return k[1]
		}
	}
	return len(part)
}

// isWord reports whether a key consists of letters, _ and - only. Other text in the place of a key
// may be a secret that was written there by mistake.
func isWord(key string) bool {
	return strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz_-") == ""
}

// isPublic reports whether the value of a key in the section auth may be shown: that of every known
// key but client_secret, and for method only what is nearly the name of a method.
func isPublic(key, value string) bool {
	if key == "method" {
		_, near := Nearest(strings.Trim(strings.SplitN(value, "#", 2)[0], " \t,}"), credential.Methods)
		return near
	}
	_, known := fieldsOf(reflect.TypeFor[credential.Config]())[key]
	return known && key != "client_secret"
}

// lineMask is what of a line is hidden.
type lineMask struct {
	all  bool // it goes on with a secret that began on a line before
	auth bool // it belongs to a section that says who the agent is
}

// lineMasks returns, for each line of a file, what has to be hidden of it: all, if it continues a
// secret value of a line before, or what is not public, if it belongs to a section auth. open and
// auth carry the state from line to line.
func lineMasks(lines []string) []lineMask {
	masks := make([]lineMask, len(lines))
	var open openSecret
	var auth section
	for i, line := range lines {
		masks[i] = lineMask{all: open.covers(line), auth: auth.covers(line) || authKey.MatchString(line)}
		open, auth = open.after(line), auth.after(line)
	}
	return masks
}

// authKey finds the key of a section that says who the agent is.
var authKey = regexp.MustCompile(`(?:^|[\s{,?"'-])auth["']?[ \t]*(?::(?:[ \t\r]|$)|=)`)

// section follows such a section from line to line.
type section struct {
	open   bool
	indent int
}

// covers reports whether the line belongs to the section auth that is open: it is blank, is
// indented deeper than the key, or is as deep and begins with a dash or a closing brace.
func (v section) covers(line string) bool {
	trimmed := strings.TrimSpace(line)
	return v.open && (trimmed == "" || indentOf(line) > v.indent || indentOf(line) == v.indent && (trimmed[0] == '-' || trimmed[0] == '}'))
}

// after returns the state for the next line: the section auth is open if the line belongs to it or
// begins one.
func (v section) after(line string) section {
	switch {
	case v.covers(line):
		return v
	case authKey.MatchString(line):
		return section{open: true, indent: indentOf(line)}
	}
	return section{}
}

// secretKey is the place of a word that names a secret.
type secretKey struct {
	value  int // where its value begins
	indent int // lines indented deeper belong to the value
}

// findSecret returns the place of the first key of a line whose value must not be shown, and
// whether there is one. Keys that name files are no secrets.
func findSecret(line string) (secretKey, bool) {
	if found, is := findNamed(line); is {
		return found, true
	}
	return findProxy(line)
}

// findProxy returns the place of a key proxy whose value is on the following lines: nothing follows
// it on its own line but the signs of a YAML block. Values on the line itself are masked by
// maskProxyIn.
func findProxy(line string) (secretKey, bool) {
	if !strings.Contains(line, "roxy") && !strings.Contains(line, "ROXY") {
		return secretKey{}, false
	}
	at := proxyKey.FindStringIndex(line)
	if at == nil || strings.Trim(line[at[1]:], " \t\r|>+-0123456789") != "" {
		return secretKey{}, false
	}
	return secretKey{value: len(line), indent: indentOf(line)}, true
}

// nearWords are the words that name secrets, for keys that are misspelt.
var nearWords = []string{"secret", "clientsecret", "password", "passwd", "token", "credential", "apikey"}

// findNear returns the index in the line at which the value begins of the first key that is nearly
// spelled like that of a secret; false if there is none.
func findNear(line string) (value int, found bool) {
	for _, m := range anyKey.FindAllStringSubmatchIndex(line, -1) {
		if isNearSecret(line[m[2]:m[3]]) {
			return m[3] + strings.IndexAny(line[m[3]:], ":=") + 1, true
		}
	}
	return 0, false
}

// isNearSecret reports whether a key, or a part of it, differs little from a word for secrets: by a
// letter, or in a long word by up to a third of its letters. A key of the configuration is never
// one, nor is one that names a file.
func isNearSecret(key string) bool {
	if _, known := sectionsOfKeys()[key]; known || strings.HasSuffix(strings.ToLower(key), "file") {
		return false
	}
	parts := strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return r == '_' || r == '-' })
	for _, part := range append(parts, plainKey(key)) {
		for _, w := range nearWords {
			if len(part) >= 4 && len(part) <= 64 && distance(part, w) <= max(1, len(w)/3) {
				return true
			}
		}
	}
	return false
}

// findNamed returns the place of the first key of a line that has a word for secrets in it, and
// whether there is one. Keys that name files, and values such as that of method: client_secret, do
// not count.
func findNamed(line string) (secretKey, bool) {
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

// mayNameSecret is a cheap test before the regular expression secretWord: it is true for every line
// in which that finds something, and for some others.
func mayNameSecret(line string) bool {
	lower := strings.ToLower(line)
	return slices.ContainsFunc([]string{"secret", "passw", "pwd", "token", "credential", "key", "sig"}, func(part string) bool { return strings.Contains(lower, part) })
}

// openSecret says whether the lines from here on may belong to the value of a secret key, which must
// not be shown.
type openSecret struct {
	open   bool
	indent int
	quote  byte // that the value has opened, if any
}

// covers reports whether the line may continue the secret value that is open: a quote is not closed
// yet, or the line is blank, begins with a tab or a colon, or is indented deeper than the key.
func (v openSecret) covers(line string) bool {
	if !v.open {
		return false
	}
	trimmed := strings.TrimSpace(line)
	return v.quote != 0 || trimmed == "" || line[0] == '\t' || indentOf(line) > v.indent || strings.HasPrefix(trimmed, ":")
}

// after returns the state for the next line: it is open if that line may still be part of a secret
// value, because this line continues one or has a key that names one. Lines that are too long to be
// searched for secrets count as having such a key.
func (v openSecret) after(line string) openSecret {
	if v.covers(line) {
		if v.quote != 0 && strings.IndexByte(line, v.quote) >= 0 {
			v.quote = 0
		}
		return v
	}
	if len(line) > maxShown {
		return openSecret{open: true, indent: indentOf(line)}
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
