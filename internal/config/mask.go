package config

import (
	"reflect"
	"regexp"
	"strings"
	"sync"

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

// maskLine is a line that does not go on with a secret of the line before,
// with whatever in it may be one replaced.
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

// maskProxyIn masks what stands for a proxy and is no URL of one: where its parts
// are is not known then.
func maskProxyIn(line string) string {
	at := proxyKey.FindStringIndex(line)
	if at == nil || plainProxy.MatchString(strings.TrimLeft(line[at[1]:], " \t")) {
		return line
	}
	return line[:at[1]] + " " + kusto.Mask
}

// maskAuth is a line of a section that says who the agent is, or that begins one,
// where every value of the section is masked but those of keys that are known and
// hold no secret. It is masked to its end from the first that is not.
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

// publicLength is how much of a part of such a section may be shown.
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

// isWord says that a key can be one that somebody meant, and no secret in its place.
func isWord(key string) bool {
	return strings.Trim(strings.ToLower(key), "abcdefghijklmnopqrstuvwxyz_-") == ""
}

// isPublic says whether a value in the section auth may be shown: that of a key that
// is known and holds no secret, and of the method what looks like one.
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

// lineMasks tells what of each line is hidden.
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

func (v section) covers(line string) bool {
	trimmed := strings.TrimSpace(line)
	return v.open && (trimmed == "" || indentOf(line) > v.indent || indentOf(line) == v.indent && (trimmed[0] == '-' || trimmed[0] == '}'))
}

// after is the state behind a line.
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

// findSecret finds the first key of line whose value is not to be shown. Names
// of files are no secrets.
func findSecret(line string) (secretKey, bool) {
	found, is := findNamed(line)
	if is {
		return found, true
	}
	return findProxy(line)
}

// findProxy finds the key of a proxy whose value is on the lines behind it.
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

// findNear finds where the value of the first key of line begins that is nearly
// called as a secret.
func findNear(line string) (value int, found bool) {
	for _, m := range anyKey.FindAllStringSubmatchIndex(line, -1) {
		if isNearSecret(line[m[2]:m[3]]) {
			return m[3] + strings.IndexAny(line[m[3]:], ":=") + 1, true
		}
	}
	return 0, false
}

// isNearSecret says that a key, or a part of it, is a word for a secret but for a
// letter, or two of a long one. A key that there is, is none.
func isNearSecret(key string) bool {
	if _, known := knownKeys()[key]; known || strings.HasSuffix(strings.ToLower(key), "file") {
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

// knownKeys are all keys of the configuration.
var knownKeys = sync.OnceValue(func() map[string]bool {
	all := make(map[string]bool)
	add := func(t reflect.Type) {
		for key := range fieldsOf(t) {
			all[key] = true
		}
	}
	for _, s := range sections {
		add(reflect.TypeOf(s.keys))
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[document]()) {
		if f.Type.Kind() == reflect.Struct {
			add(f.Type)
		}
	}
	return all
})

// findNamed finds the first key of line that has a word for a secret in it.
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
